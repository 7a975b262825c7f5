//! `cargo rights FOLDER`: lists the rights of the operator's roles that no test has used. The tests
//! must run with `TRELLIS_AUDIT=FOLDER`. If a used right is missing, a test fails, because the API
//! server refuses a request.
//!
//! Exit status: 0 all rights are used, 1 a right is unused, 2 no requests were recorded or the
//! roles cannot be read.

mod granted_rights;
mod used_rights;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

/// A right: API group, resource with its subresource, verb.
type Right = (String, String, String);

/// List the rights of the operator's roles that no test has used.
#[derive(Parser)]
struct RightsArguments {
    /// The folder of the records, as in TRELLIS_AUDIT.
    folder: PathBuf,
}

/// Rights that other components check. No request of the operator uses them.
const EXTERNALLY_CHECKED: &[(&str, &str, &str, &str)] = &[
    (
        "trellis.dev",
        "trainingjobs/finalizers",
        "update",
        "OwnerReferencesPermissionEnforcement asks for it",
    ),
    (
        "trellis.dev",
        "trainingjobs/pods",
        "create",
        "the chart's admission policies ask for it: test keys of policies",
    ),
];

fn main() -> ExitCode {
    let options = RightsArguments::parse();
    let (granted, used) = match (
        granted_rights::read_granted_rights(),
        used_rights::read_used_rights(&options.folder),
    ) {
        (Ok(granted), Ok(used)) => (granted, used),
        (Err(error), _) | (_, Err(error)) => {
            print_line(&format!("error: {error:#}"));
            return ExitCode::from(2);
        }
    };
    let elsewhere = |(group, resource, verb): &Right| {
        let same =
            |(g, r, v, _): &&(&str, &str, &str, &str)| g == group && r == resource && v == verb;
        EXTERNALLY_CHECKED.iter().find(same)
    };
    let mut unused = 0_usize;
    for right in &granted {
        let (group, resource, verb) = right;
        let how = match (used.contains(right), elsewhere(right)) {
            (true, _) => continue,
            (false, Some((.., reason))) => (*reason).to_owned(),
            (false, None) => {
                unused = unused.saturating_add(1);
                "NO TEST USES IT".to_owned()
            }
        };
        print_line(&format!("{verb:<8} {resource:<40} {group:<32} {how}"));
    }
    print_line(&format!(
        "{} rights are granted, {} of them are used by tests, {unused} by none",
        granted.len(),
        granted.iter().filter(|right| used.contains(*right)).count(),
    ));
    ExitCode::from(u8::from(unused > 0))
}

#[expect(clippy::print_stdout, reason = "it is what the program is for")]
fn print_line(text: &str) {
    println!("{text}");
}
