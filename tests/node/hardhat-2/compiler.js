// Gives Hardhat 2 the compiler at SOLJSON, which is here already, where it would fetch one of its own.
// Beside a configuration that requires it.

const { TASK_COMPILE_SOLIDITY_GET_SOLC_BUILD } = require("hardhat/builtin-tasks/task-names");
const { subtask } = require("hardhat/config");

subtask(TASK_COMPILE_SOLIDITY_GET_SOLC_BUILD).setAction(async ({ solcVersion }) => ({
    version: solcVersion,
    longVersion: "0.8.28+commit.7893614a",
    compilerPath: process.env.SOLJSON,
    isSolcJs: true,
}));
