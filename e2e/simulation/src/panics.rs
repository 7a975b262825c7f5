//! Panics in tasks of the operator, which tokio catches.

use std::cell::RefCell;

thread_local! {
    static PANICS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Records the panics of each thread from now on, instead of printing them.
pub fn record_panics() {
    std::panic::set_hook(Box::new(|panic| {
        PANICS.with_borrow_mut(|panics| panics.push(format!("panic: {panic}")));
    }));
}

/// Returns the panics of this thread since the last call.
pub(crate) fn take() -> Vec<String> {
    PANICS.take()
}
