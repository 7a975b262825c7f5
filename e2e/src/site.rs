//! A test site: a namespace, and nodes that only its jobs use.

pub(crate) mod background;
pub mod jobs;
pub mod namespace;
pub(crate) mod object_watch;
pub mod pod_history;
pub mod queues;

use std::ops::Deref;
use std::sync::Arc;

use trellis_verify::Rule;

use crate::cluster::{NodeSet, NodeTemplate};
use crate::control_plane::ControlPlane;
use crate::oracle::JudgedSite;
use crate::site::jobs::TestJobs;
use crate::site::namespace::TestNamespace;

/// The jobs of a namespace, with the namespace and its nodes, which are deleted with this value.
/// The name of the namespace is also the scope and the name prefix of the nodes.
#[derive(Debug)]
pub struct TestSite {
    jobs: TestJobs,
    /// Judged at the end of the test, before the objects are deleted.
    judged: JudgedSite,
    namespace: TestNamespace,
    nodes: NodeSet,
}

impl TestSite {
    /// Creates a namespace `<prefix>-<suffix>` and `nodes` with the names `<name>-{i}`.
    ///
    /// # Panics
    ///
    /// When the API server refuses an object.
    pub async fn new(control_plane: &ControlPlane, prefix: &str, nodes: NodeTemplate) -> Self {
        let namespace = TestNamespace::create(control_plane, prefix).await.unwrap();
        let judged = JudgedSite::new(Arc::clone(control_plane.oracle()), namespace.name());
        let scope = namespace.name();
        let nodes = nodes
            .name(&format!("{scope}-{{i}}"))
            .scope(scope)
            .create(control_plane)
            .await
            .unwrap();
        Self {
            jobs: TestJobs::new(&namespace, scope),
            judged,
            namespace,
            nodes,
        }
    }

    /// The name of the site.
    #[must_use]
    pub fn name(&self) -> &str {
        self.namespace.name()
    }

    /// Lets the test break a rule of `trellis-verify`, for example because it writes a status that
    /// only the operator writes.
    pub fn expect_broken(&self, rule: Rule) {
        self.judged.expect(rule);
    }

    /// Ends the judgement of the site, and returns the promises that Trellis has broken. Blocks the
    /// thread until the last changes are judged. Without this call, a broken promise is a panic
    /// when this value is dropped.
    pub fn end_judgement(&mut self) -> Vec<String> {
        self.judged.end()
    }

    /// Creates more nodes of the scope, with the names `<name>-more-{i}`.
    ///
    /// # Panics
    ///
    /// When the API server refuses a node.
    pub async fn add_nodes(&self, control_plane: &ControlPlane, nodes: NodeTemplate) -> NodeSet {
        nodes
            .name(&format!("{}-more-{{i}}", self.name()))
            .scope(self.name())
            .create(control_plane)
            .await
            .unwrap()
    }

    /// The nodes of the site.
    #[must_use]
    pub fn nodes(&self) -> &NodeSet {
        &self.nodes
    }

    /// Returns a handle for the jobs of another namespace on the nodes of this site. The site is
    /// judged by them, too.
    #[must_use]
    pub fn jobs_in(&self, namespace: &TestNamespace) -> TestJobs {
        self.judged.add_namespace(namespace.name());
        TestJobs::new(namespace, self.name())
    }
}

impl Deref for TestSite {
    type Target = TestJobs;

    fn deref(&self) -> &TestJobs {
        &self.jobs
    }
}
