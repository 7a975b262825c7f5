//! Renders the results in JUnit's format, which CI systems show.

use std::collections::BTreeMap;

use super::report::{TestReport, TestRun};

/// Renders all results. Each object and each file of tests is a suite.
pub(super) fn render_junit(report: &TestReport) -> String {
    let mut suites: BTreeMap<(&str, &str), Vec<&TestRun>> = BTreeMap::new();
    for test in &report.tests {
        suites.entry((&test.file, &test.of)).or_default().push(test);
    }
    let too_low = report.coverage_problem();
    let extra = usize::from(report.min_coverage.is_some());
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    out.push_str(&format!(
        "<testsuites name=\"trellis policy test\" tests=\"{}\" failures=\"{}\" errors=\"0\">\n",
        report.tests.len().saturating_add(extra),
        report
            .failed_count()
            .saturating_add(usize::from(too_low.is_some()))
    ));
    for ((file, suite), tests) in suites {
        let failed = tests.iter().filter(|test| !test.passed).count();
        open_suite((suite, file), tests.len(), failed, &mut out);
        for test in tests {
            let reason = (!test.passed).then(|| test.failure.as_deref().unwrap_or_default());
            render_case(
                (suite, &test.name),
                Some((&test.file, test.line)),
                reason,
                &mut out,
            );
        }
        out.push_str("  </testsuite>\n");
    }
    if report.min_coverage.is_some() {
        open_suite(
            ("coverage", ""),
            1,
            usize::from(too_low.is_some()),
            &mut out,
        );
        let untested: Vec<_> = report
            .untested_policies()
            .map(|policy| policy.id.as_str())
            .collect();
        let reason =
            too_low.map(|reason| format!("{reason}: no test covers {}", untested.join(", ")));
        render_case(
            ("coverage", "policies are tested"),
            None,
            reason.as_deref(),
            &mut out,
        );
        out.push_str("  </testsuite>\n");
    }
    out.push_str("</testsuites>\n");
    out
}

fn open_suite((name, file): (&str, &str), tests: usize, failed: usize, out: &mut String) {
    let file = match file {
        "" => String::new(),
        file => format!(" file=\"{}\"", escape(file)),
    };
    out.push_str(&format!(
        "  <testsuite name=\"{}\"{file} tests=\"{tests}\" failures=\"{failed}\" errors=\"0\">\n",
        escape(name)
    ));
}

fn render_case(
    (of, name): (&str, &str),
    place: Option<(&str, usize)>,
    reason: Option<&str>,
    out: &mut String,
) {
    let place = place.map(|(file, line)| format!(" file=\"{}\" line=\"{line}\"", escape(file)));
    out.push_str(&format!(
        "    <testcase classname=\"{}\" name=\"{}\"{}",
        escape(of),
        escape(name),
        place.unwrap_or_default()
    ));
    match reason {
        None => out.push_str("/>\n"),
        Some(reason) => out.push_str(&format!(
            ">\n      <failure message=\"{}\"/>\n    </testcase>\n",
            escape(reason)
        )),
    }
}

/// Escapes a text for an attribute.
/// Characters that XML 1.0 does not allow become question marks.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' | '\r' | '\t' => out.push_str(&format!("&#{};", u32::from(c))),
            '\u{fffe}' | '\u{ffff}' => out.push('?'),
            c if u32::from(c) < 0x20 => out.push('?'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped_in_the_markup() {
        assert_eq!(
            escape("<a b=\"c\">&\n\u{1b}\u{ffff}é"),
            "&lt;a b=&quot;c&quot;&gt;&amp;&#10;??é"
        );
    }
}
