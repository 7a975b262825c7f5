//! A place of one test's own: a namespace, and nodes that only its jobs go to.

use std::ops::Deref;

use crate::cluster::{NodeSet, NodeTemplate};
use crate::control_plane::ControlPlane;
use crate::jobs::TestJobs;
use crate::namespace::TestNamespace;

/// The jobs of a namespace, with the namespace and the nodes, which go with it. Its name is the
/// namespace's, the scope of the nodes, and what their names begin with.
#[derive(Debug)]
pub struct TestSite {
    jobs: TestJobs,
    namespace: TestNamespace,
    nodes: NodeSet,
}

impl TestSite {
    /// Creates a namespace `<prefix>-<suffix>` and `nodes` called `<name>-{i}`.
    ///
    /// # Panics
    ///
    /// When the API server refuses an object.
    pub async fn new(control_plane: &ControlPlane, prefix: &str, nodes: NodeTemplate) -> Self {
        let namespace = TestNamespace::create(control_plane, prefix).await.unwrap();
        let scope = namespace.name();
        let nodes = nodes
            .name(&format!("{scope}-{{i}}"))
            .scope(scope)
            .create(control_plane)
            .await
            .unwrap();
        Self {
            jobs: TestJobs::new(&namespace, scope),
            namespace,
            nodes,
        }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.namespace.name()
    }

    /// More nodes of its scope, called `<name>-more-{i}`.
    ///
    /// # Panics
    ///
    /// When the API server refuses one.
    pub async fn add_nodes(&self, control_plane: &ControlPlane, nodes: NodeTemplate) -> NodeSet {
        nodes
            .name(&format!("{}-more-{{i}}", self.name()))
            .scope(self.name())
            .create(control_plane)
            .await
            .unwrap()
    }

    /// Its nodes.
    #[must_use]
    pub fn nodes(&self) -> &NodeSet {
        &self.nodes
    }

    /// The jobs of another namespace, on the nodes of this one.
    #[must_use]
    pub fn jobs_in(&self, namespace: &TestNamespace) -> TestJobs {
        TestJobs::new(namespace, self.name())
    }
}

impl Deref for TestSite {
    type Target = TestJobs;

    fn deref(&self) -> &TestJobs {
        &self.jobs
    }
}
