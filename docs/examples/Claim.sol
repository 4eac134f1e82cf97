// SPDX-License-Identifier: MIT
pragma solidity ^0.8.20;

interface IDelegateRegistry {
    function checkDelegateForContract(address to, address from, address contract_, bytes32 rights)
        external
        view
        returns (bool);
}

/// @notice Each account can claim once, itself or through a hot wallet that it has delegated to.
contract Claim {
    /// @notice The registry has this address on every network.
    IDelegateRegistry public constant REGISTRY =
        IDelegateRegistry(0x00000000000000447e69651d841bD8D104Bed493);

    /// @notice The right that a vault delegates to let a hot wallet claim, and nothing else. A delegation
    /// of all rights (empty) or for all contracts is accepted too.
    bytes32 public constant RIGHTS = "claim";

    mapping(address account => bool) public claimed;

    event Claimed(address indexed account, address indexed by);

    /// @notice Claims for the caller or, if `vault` is another account, for the vault.
    /// @param vault Account to claim for; the zero address means the caller.
    function claim(address vault) external {
        address account = vault == address(0) ? msg.sender : vault;
        require(
            account == msg.sender
                || REGISTRY.checkDelegateForContract(msg.sender, vault, address(this), RIGHTS),
            "delegation does not exist"
        );
        require(!claimed[account], "already claimed");
        claimed[account] = true;
        emit Claimed(account, msg.sender);
    }
}
