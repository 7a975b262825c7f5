//! The web page in a real browser, on a real control plane and a real operator.
//!
//! The tests themselves are in `operator/dashboard/web/test/browser`, in TypeScript, because
//! Playwright drives the browser. This program starts the cluster, runs each file of tests, and stops
//! and starts the operator when a test asks for it. Without a browser or Node.js the tests count as
//! ignored.

mod acts;
mod browser;
mod forwarded_tokens;
mod users;
mod world;

use std::process::ExitCode;
use std::sync::{Arc, LazyLock};

use libtest_mimic::{Arguments, Trial, run};
use tokio::runtime::Runtime;
use tokio::sync::OnceCell;
use world::World;

static RUNTIME: LazyLock<Runtime> =
    LazyLock::new(|| Runtime::new().unwrap_or_else(|error| panic!("no runtime: {error}")));

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // The files share one cluster, and some stop its operator.
    arguments.test_threads = Some(1);
    let missing = browser::missing_program();
    let files = browser::test_files().unwrap_or_else(|error| panic!("{error:#}"));
    // The last owner ends the cluster.
    let world = Arc::new(OnceCell::new());
    let trials =
        files.into_iter().map(
            |file| match missing.or_else(|| browser::reason_to_ignore(&file)) {
                None => browser_trial(file, world.clone()),
                Some(reason) => ignored_trial(file, reason),
            },
        );
    let tokens = forwarded_tokens_trial(world.clone());
    let trials = std::iter::once(tokens).chain(trials);
    run(&arguments, trials.collect()).exit_code()
}

/// A test that runs one file of browser tests.
fn browser_trial(file: String, world: Arc<OnceCell<World>>) -> Trial {
    Trial::test(file.clone(), move || {
        let tested = RUNTIME.block_on(async {
            let world = world.get_or_try_init(World::start).await?;
            browser::run_file(world, &file).await
        });
        tested.map_err(|error| format!("{error:#}").into())
    })
}

/// A test of the page in a cluster, without a browser.
fn forwarded_tokens_trial(world: Arc<OnceCell<World>>) -> Trial {
    Trial::test("tokens_of_users_are_never_mixed", move || {
        let tested = RUNTIME.block_on(async {
            let world = world.get_or_try_init(World::start).await?;
            forwarded_tokens::test_separation(world).await
        });
        tested.map_err(|error| format!("{error:#}").into())
    })
}

/// A test that this machine cannot run, for this reason.
fn ignored_trial(file: String, reason: &str) -> Trial {
    Trial::test(file, || Ok(()))
        .with_kind(reason)
        .with_ignored_flag(true)
}
