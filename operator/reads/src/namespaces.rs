//! The namespaces whose jobs the user may list.

use kube::Api;
use trellis_api::visibility::VisibleNamespace;

use crate::visibility::list_objects;
use crate::{ReadError, Reader};

/// Lists the namespaces, by name.
///
/// # Errors
/// If the operator does not answer, or the user may not ask.
pub async fn read_namespaces(reader: &Reader) -> Result<Vec<VisibleNamespace>, ReadError> {
    let api = Api::<VisibleNamespace>::all(reader.client.clone());
    let right = "list visiblenamespaces.visibility.trellis.dev";
    let listed = list_objects(&api, reader.scheduler_timeout).await;
    let listed = listed.map_err(|error| reader.read_error(error, right))?;
    let listed = listed.into_result("ask for the ClusterRole trellis-own-namespaces")?;
    Ok(listed.map(|list| list.items).unwrap_or_default())
}
