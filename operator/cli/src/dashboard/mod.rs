//! `trellis dashboard`: serves the web page.

mod browser;
mod in_cluster;
mod links;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use tokio::net::TcpListener;
use trellis_dashboard::{AccessLinks, Dashboard, LocalCredentials, PublicUrl};

use crate::exit::Exit;
use crate::output::{print, warn};
use crate::target::NamespaceOptions;
use links::PageLinks;

/// Options of `trellis dashboard`.
#[derive(clap::Args, Clone, Debug)]
pub struct DashboardOptions {
    /// The view to open, such as /queue or /jobs/NAMESPACE/NAME.
    #[arg(value_name = "PATH", default_value = "/", value_parser = parse_view_path)]
    path: String,
    /// The port on this machine. Default: a free port.
    #[arg(
        long,
        value_name = "PORT",
        default_value_t = 0,
        conflicts_with = "in_cluster"
    )]
    port: u16,
    /// Print the link, and start no browser.
    #[arg(long, conflicts_with = "in_cluster")]
    no_browser: bool,
    /// Serve many users behind a proxy that signs them in.
    /// Each request must carry the user's token in the header Authorization. The chart runs this
    /// (dashboard.enabled).
    #[arg(long, requires = "public_url")]
    in_cluster: bool,
    /// The URL under which users open the page, with --in-cluster.
    #[arg(long, value_name = "URL", requires = "in_cluster")]
    public_url: Option<PublicUrl>,
    /// The address that the proxy connects to, with --in-cluster.
    #[arg(
        long,
        value_name = "ADDRESS",
        default_value = "0.0.0.0:8080",
        requires = "in_cluster"
    )]
    listen: SocketAddr,
    /// The certificates that the API server is checked with, with --in-cluster.
    #[arg(
        long,
        value_name = "FILE",
        default_value = "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt",
        requires = "in_cluster"
    )]
    certificate_authority: PathBuf,
    /// Namespace and cluster.
    #[command(flatten)]
    target: NamespaceOptions,
}

/// Serves the page until the user ends the command.
///
/// # Errors
/// If no cluster is configured, or the port is taken.
pub fn run(options: &DashboardOptions) -> anyhow::Result<ExitCode> {
    match (&options.public_url, options.in_cluster) {
        (Some(url), true) => {
            in_cluster::serve(url.clone(), options.listen, &options.certificate_authority)?;
        }
        _ => serve_local(options)?,
    }
    Ok(Exit::Done.into())
}

fn serve_local(options: &DashboardOptions) -> anyhow::Result<()> {
    let site = options.target.connect()?;
    let credentials = LocalCredentials {
        context: options
            .target
            .cluster
            .to_kubeconfig_options()
            .context_name(),
        reader: site.reader,
    };
    let access = Arc::new(AccessLinks::default());
    site.cluster.block_on(async {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, options.port));
        let listener = TcpListener::bind(address).await.with_context(|| {
            format!(
                "cannot listen on {address}: another program may have the port; omit --port for a free one"
            )
        })?;
        let links = PageLinks::new(listener.local_addr()?, options.path.clone(), access.clone());
        let link = links.create()?;
        if options.no_browser || !browser::open(&link) {
            print(&format!("Open {link}\n"))?;
        } else {
            print(&format!("The page is at {}\n", links.address()))?;
        }
        print("Press Enter for a new link, and Ctrl-C to end the page.\n")?;
        links.print_on_enter();
        let dashboard = Dashboard::local(credentials, access, |text: &str| {
            warn(&format!("warning: {text}"));
        });
        tokio::select! {
            result = dashboard.serve(listener) => result,
            result = tokio::signal::ctrl_c() => Ok(result?),
        }
    })
}

/// Accepts paths of views, so that no other text becomes part of the link.
fn parse_view_path(written: &str) -> anyhow::Result<String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/-._~?=&,:%+".contains(c);
    if !written.starts_with('/') || written.starts_with("//") || !written.chars().all(is_plain) {
        bail!("write a path of the page, such as /queue or /jobs/NAMESPACE/NAME");
    }
    Ok(written.to_owned())
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(clap::Parser, Debug)]
    struct DashboardCommandLine {
        #[command(flatten)]
        options: DashboardOptions,
    }

    #[test]
    fn path_is_a_path_of_the_page() {
        for own in [
            "/",
            "/queue?state=Queued&q=team-a",
            "/jobs/ml/podgroup.sweep",
        ] {
            assert_eq!(parse_view_path(own).unwrap(), own);
        }
        for other in [
            "queue",
            "//evil.example",
            "/a b",
            "/a#code=x",
            "/\u{202e}",
            "",
        ] {
            assert!(parse_view_path(other).is_err(), "{other:?}");
        }
    }

    #[test]
    fn page_in_the_cluster_needs_its_url() {
        let parse = |arguments: &[&str]| {
            DashboardCommandLine::try_parse_from([&["dashboard"], arguments].concat())
        };
        assert!(parse(&[]).is_ok());
        assert!(parse(&["/queue", "--port", "8123", "--no-browser"]).is_ok());
        let url = "https://trellis.example.org";
        assert!(parse(&["--in-cluster", "--public-url", url]).is_ok());
        for wrong in [
            &["--in-cluster"][..],
            &["--public-url", url],
            &["--listen", "0.0.0.0:80"],
            &["--in-cluster", "--public-url", "trellis"],
            &["--in-cluster", "--public-url", url, "--port", "1"],
        ] {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
    }
}
