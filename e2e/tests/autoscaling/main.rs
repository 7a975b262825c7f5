//! Gangs that wait for new nodes, on a real Karpenter. `purchase`, `hand_over` and `placeholder_job`
//! act as the operator: they check the behaviour of Karpenter and of the Job controller that Trellis
//! relies on. The other modules run the operator.

mod fixtures;
mod gangs;
mod growing_site;
mod hand_over;
mod placeholder_job;
mod purchase;

use std::path::Path;

use tokio::sync::OnceCell;
use trellis_e2e::control_plane::{ControlPlane, ControlPlaneOptions};
use trellis_e2e::karpenter::{self, Karpenter};
use trellis_e2e::operator::{self, LaunchOptions, Operator};

/// The programs on the control plane of this test process.
struct Programs {
    _karpenter: Karpenter,
    _operator: Operator,
}

/// The control plane of this test process, with one Karpenter and one operator on it.
async fn shared_control_plane() -> &'static ControlPlane {
    static PROGRAMS: OnceCell<Programs> = OnceCell::const_new();
    let options = || {
        let mut options: ControlPlaneOptions = operator::control_plane_options().unwrap();
        options.manifests.extend(karpenter::crds().unwrap());
        options
    };
    let control_plane = ControlPlane::shared_with(options).await.unwrap();
    let start = async || Programs {
        _karpenter: Karpenter::start(control_plane, &[]).await.unwrap(),
        _operator: start_operator(control_plane).await,
    };
    PROGRAMS.get_or_init(start).await;
    control_plane
}

async fn start_operator(control_plane: &ControlPlane) -> Operator {
    operator::install_chart_objects(control_plane)
        .await
        .unwrap();
    operator::install_placeholder_objects(control_plane)
        .await
        .unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_trellis-under-test"));
    let kubeconfig = operator::kubeconfig(control_plane, operator::POD).await;
    let namespace = operator::PLACEHOLDER_NAMESPACE;
    let launch = LaunchOptions::with_name("operator")
        .argument(&format!("--placeholder-namespace={namespace}"));
    Operator::launch_with_options(control_plane, program, &kubeconfig.unwrap(), &launch).unwrap()
}
