//! One test for each fuzz target. The corpus of a target is `__fuzz__/TARGET/corpus`; inputs that
//! have once broken a property are in `__fuzz__/TARGET/crashes`.

use std::path::Path;

use trellis_fuzz::{check_edited_corpus, targets};

macro_rules! tests {
    ($($target:ident),+ $(,)?) => {$(
        #[test]
        fn $target() {
            let target = targets::$target::TARGET;
            bolero::check!()
                .with_iterations(0)
                .for_each(|input: &[u8]| (target.check)(input));
            if !cfg!(fuzzing) {
                let folder = concat!(
                    env!("CARGO_MANIFEST_DIR"), "/tests/__fuzz__/", stringify!($target), "/corpus"
                );
                check_edited_corpus(&target, Path::new(folder));
            }
        }
    )+};
}

tests!(
    engine,
    front_proxy,
    history,
    import,
    job,
    journal,
    names,
    policy,
    quantity,
    review,
    rules,
    snapshot,
    traces,
    visibility_request,
    watch_items,
    watch_stream,
    yaml,
);
