//! Links to the page.

use std::io::IsTerminal as _;
use std::net::SocketAddr;
use std::sync::Arc;

use trellis_dashboard::AccessLinks;

use crate::output::{print, warn};

/// Creates links to one view.
#[derive(Clone, Debug)]
pub(super) struct PageLinks {
    address: SocketAddr,
    path: String,
    access: Arc<AccessLinks>,
}

impl PageLinks {
    pub(super) fn new(address: SocketAddr, path: String, access: Arc<AccessLinks>) -> Self {
        Self {
            address,
            path,
            access,
        }
    }

    /// The URL of the page, without a code.
    pub(super) fn address(&self) -> String {
        format!("http://{}/", self.address)
    }

    /// Creates a link that opens the page once.
    pub(super) fn create(&self) -> anyhow::Result<String> {
        let code = self.access.create_code()?;
        Ok(format!("http://{}{}#code={code}", self.address, self.path))
    }

    /// Prints a new link whenever the user presses Enter.
    pub(super) fn print_on_enter(&self) {
        if !std::io::stdin().is_terminal() {
            return;
        }
        let links = self.clone();
        // A thread of its own: the runtime would wait for a line before it ends.
        std::thread::spawn(move || {
            for line in std::io::stdin().lines() {
                let link = line.map_err(Into::into).and_then(|_| links.create());
                match link {
                    Ok(link) => drop(print(&format!("Open {link}\n"))),
                    Err(error) => return warn(&format!("error: {error:#}")),
                }
            }
        });
    }
}
