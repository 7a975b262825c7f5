//! Gangs that wait for new nodes, on a real Karpenter. `provisioning_request` has a stand-in for
//! Cluster Autoscaler, which cannot be built here. `purchase`, `hand_over` and `placeholder_job`
//! take the place of the operator: they check the behaviour of Karpenter and of the Job controller
//! that Trellis relies on. The other modules run the operator; `takeover` kills it.

mod arrival;
mod autoscaler_check;
mod changes;
mod fixtures;
mod gangs;
mod growing_site;
mod hand_over;
mod limits;
mod ordering_site;
mod placeholder_job;
mod provisioning_request;
mod purchase;
mod stand_in;
mod takeover;

use std::path::Path;
use std::time::Duration;

use tokio::sync::OnceCell;
use trellis_e2e::control_plane::{ControlPlane, ControlPlaneOptions};
use trellis_e2e::karpenter::{self, Karpenter};
use trellis_e2e::operator::{self, LaunchOptions, Operator};

/// Time in which a second purchase would show. Karpenter looks at pending pods every second.
const SETTLED: Duration = Duration::from_secs(15);

/// The programs on the control plane of this test process.
struct Programs {
    _karpenter: Karpenter,
    _operator: Operator,
}

/// The control plane of this test process, with one Karpenter and one operator on it.
async fn shared_control_plane() -> &'static ControlPlane {
    static PROGRAMS: OnceCell<Programs> = OnceCell::const_new();
    let control_plane = ControlPlane::shared_with(control_plane_options)
        .await
        .unwrap();
    let start = async || {
        let karpenter = install(control_plane).await;
        let kubeconfig = operator::kubeconfig(control_plane, operator::POD).await;
        let (kubeconfig, launch) = (kubeconfig.unwrap(), launch_options());
        let operator =
            Operator::launch_with_options(control_plane, operator_program(), &kubeconfig, &launch);
        Programs {
            _karpenter: karpenter,
            _operator: operator.unwrap(),
        }
    };
    PROGRAMS.get_or_init(start).await;
    control_plane
}

fn control_plane_options() -> ControlPlaneOptions {
    let mut options = operator::control_plane_options().unwrap();
    options.manifests.extend(karpenter::crds().unwrap());
    options.manifests.push(stand_in::crd());
    options
}

/// Installs the objects of the chart, and starts Karpenter.
async fn install(control_plane: &ControlPlane) -> Karpenter {
    install_chart(control_plane).await;
    Karpenter::start(control_plane, &[]).await.unwrap()
}

/// Installs the objects of the chart.
async fn install_chart(control_plane: &ControlPlane) {
    operator::install_chart_objects(control_plane)
        .await
        .unwrap();
    operator::install_placeholder_objects(control_plane)
        .await
        .unwrap();
}

/// The operator under test.
fn operator_program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_trellis-under-test"))
}

fn launch_options() -> LaunchOptions {
    let namespace = operator::PLACEHOLDER_NAMESPACE;
    LaunchOptions::with_name("operator").argument(&format!("--placeholder-namespace={namespace}"))
}
