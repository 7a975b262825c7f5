//! Panics in tasks of the operator, which tokio catches.

use std::cell::RefCell;

thread_local! {
    static PANICS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Records the panics of each thread from now on. They are printed as before.
pub fn record_panics() {
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        PANICS.with_borrow_mut(|panics| panics.push(format!("panic: {panic}")));
        print(panic);
    }));
}

/// Returns the panics of this thread since the last call.
pub(crate) fn take() -> Vec<String> {
    PANICS.take()
}
