// SPDX-License-Identifier: MIT
pragma solidity ^0.8.20;

interface IDelegateRegistry {
    function checkDelegateForContract(address to, address from, address contract_, bytes32 rights)
        external
        view
        returns (bool);
}

/// @notice Each account claims once: itself, or through an account that it has delegated this to.
contract Claim {
    /// @notice The registry has this address on every network.
    IDelegateRegistry public constant REGISTRY =
        IDelegateRegistry(0x00000000000000447e69651d841bD8D104Bed493);

    /// @notice A vault that delegates this right gives away nothing else. A delegation with empty
    /// rights holds too, and so does one of all contracts instead of this one.
    bytes32 public constant RIGHTS = "claim";

    mapping(address account => bool) public claimed;

    event Claimed(address indexed account, address indexed by);

    /// @notice Claims for the caller or, when the vault is another account, for the vault.
    /// @param vault Whom to claim for; the zero address is the caller.
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
