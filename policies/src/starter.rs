//! What is granted as long as nobody has written a policy.

use crate::Privilege;

/// True for what the starter rules grant to every namespace: `RunAsRoot`
/// alone. Most training images run as root in their container, and a first job
/// must start; all else of "restricted" holds for them too. It is kept apart
/// from the rules so that a platform team can take it away.
pub(crate) fn grants(privilege: &Privilege) -> bool {
    matches!(privilege, Privilege::RunAsRoot)
}
