//! Waits for a state of the cluster. An error has the last observed state.

use std::{fmt::Debug, future::Future, time::Duration};

use anyhow::{Context as _, Result, anyhow, bail};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::{Api, Client};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep, timeout_at};

/// The longest pause between two checks. The first pauses are shorter.
const MAX_PAUSE: Duration = Duration::from_millis(200);

/// Calls `check` until it returns `Ok`, and returns the value.
///
/// The pause between two calls grows from 10 ms to 200 ms. A call that hangs is cut off at the
/// end of `timeout`.
///
/// # Errors
///
/// When `timeout` has passed; the error is the last one of `check`.
pub async fn eventually<T, F, Fut>(timeout: Duration, mut check: F) -> Result<T>
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Result<T>>,
{
    let deadline = Instant::now() + timeout;
    let mut pause = Duration::from_millis(10);
    let mut last = anyhow!("the first check did not return");
    loop {
        match timeout_at(deadline, check()).await {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(error)) => last = error,
            Err(_) => {}
        }
        if Instant::now() + pause >= deadline {
            return Err(last.context(format!("not so after {timeout:?}")));
        }
        sleep(pause).await;
        pause = (pause * 2).min(MAX_PAUSE);
    }
}

/// Reads `name` until `predicate` returns true for it, and returns the object.
///
/// # Errors
///
/// When `timeout` has passed; the error has the last object, or says that the object does not
/// exist.
pub async fn wait_for<K>(
    api: &Api<K>,
    name: &str,
    timeout: Duration,
    predicate: impl Fn(&K) -> bool,
) -> Result<K>
where
    K: Clone + DeserializeOwned + Debug + serde::Serialize,
{
    eventually(timeout, || async {
        let Some(object) = api.get_opt(name).await? else {
            bail!("\"{name}\" does not exist");
        };
        if predicate(&object) {
            return Ok(object);
        }
        let last_object = serde_json::to_string(&object).unwrap_or_else(|_| format!("{object:?}"));
        bail!("\"{name}\" is {last_object}")
    })
    .await
}

/// Waits until `name` does not exist any more.
///
/// # Errors
///
/// When the object still exists after `timeout`.
pub async fn wait_until_deleted<K>(api: &Api<K>, name: &str, timeout: Duration) -> Result<()>
where
    K: Clone + DeserializeOwned + Debug,
{
    eventually(timeout, || async {
        match api.get_opt(name).await.context("get")? {
            None => Ok(()),
            Some(object) => bail!("\"{name}\" still exists: {object:?}"),
        }
    })
    .await
}

/// Waits until a namespace has the ServiceAccount `default`, which its pods need.
pub(crate) async fn wait_for_default_account(client: &Client, namespace: &str) -> Result<()> {
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), namespace);
    eventually(Duration::from_secs(30), || async {
        if accounts.get_opt("default").await?.is_none() {
            bail!("namespace \"{namespace}\" has no ServiceAccount \"default\"");
        }
        Ok(())
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn timeout_error_has_the_last_failure() {
        let mut calls = 0;
        let error = eventually(Duration::from_millis(80), || {
            calls += 1;
            async move { bail!("call {calls}") as Result<()> }
        })
        .await
        .unwrap_err();
        assert!(calls > 1);
        assert!(format!("{error:#}").contains(&format!("call {calls}")));
    }

    #[tokio::test]
    async fn hanging_check_is_cut_off_at_the_timeout() {
        let started = Instant::now();
        let never = eventually(Duration::from_millis(50), || async {
            std::future::pending::<Result<()>>().await
        });
        assert!(never.await.is_err());
        assert!(started.elapsed() < Duration::from_secs(2));
    }
}
