//! Parses the text format of Prometheus, as far as exporters of gauges use it.
//! Pure. (The existing crates depend on chrono and on regular expressions, and they also copy the
//! samples that are not needed.)

use std::collections::BTreeMap;

/// A sample.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample<'a> {
    /// The name of the metric.
    pub name: &'a str,
    /// The labels.
    pub labels: BTreeMap<&'a str, String>,
    /// The value.
    pub value: f64,
}

impl Sample<'_> {
    /// Returns the value of a label; None if the label is absent or empty.
    #[must_use]
    pub fn label(&self, name: &str) -> Option<&str> {
        let value = self.labels.get(name).map(String::as_str);
        value.filter(|value| !value.is_empty())
    }
}

/// Returns the samples of these metrics. Invalid lines are skipped.
pub fn parse_samples<'a>(text: &'a str, metrics: &[&str]) -> Vec<Sample<'a>> {
    text.lines()
        .filter(|line| {
            let end = line.find(|c: char| c == '{' || c.is_whitespace());
            let name = end.and_then(|end| line.get(..end));
            name.is_some_and(|name| metrics.contains(&name))
        })
        .filter_map(parse_sample)
        .collect()
}

fn parse_sample(line: &str) -> Option<Sample<'_>> {
    let end = line.find(|c: char| c == '{' || c.is_whitespace())?;
    let (name, rest) = line.split_at(end);
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(rest) => parse_labels(rest)?,
        None => (BTreeMap::new(), rest),
    };
    // A timestamp may follow.
    let value = rest.split_whitespace().next()?.parse().ok()?;
    Some(Sample {
        name,
        labels,
        value,
    })
}

/// Parses the labels after a `{`. Returns them, and the text after the `}`.
fn parse_labels(mut rest: &str) -> Option<(BTreeMap<&str, String>, &str)> {
    let mut labels = BTreeMap::new();
    loop {
        rest = rest.trim_start_matches([' ', ',']);
        if let Some(remainder) = rest.strip_prefix('}') {
            return Some((labels, remainder));
        }
        let (name, remainder) = rest.split_once('=')?;
        let (value, remainder) = parse_quoted(remainder.trim_start().strip_prefix('"')?)?;
        labels.insert(name.trim(), value);
        rest = remainder;
    }
}

/// Parses a value up to its closing quote.
/// Returns it, and the text after the quote.
fn parse_quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((value, text.get(at.checked_add(1)?..)?)),
            '\\' => value.push(match chars.next()?.1 {
                'n' => '\n',
                other => other,
            }),
            other => value.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requested_metrics_are_parsed() {
        let text = "# HELP A x\n# TYPE A gauge\nA{gpu=\"0\", pod=\"llm-0\",b=\"\",} 42\nA 1.5e1 1700000000\nAB 3\n";
        let read = parse_samples(text, &["A"]);
        assert_eq!(read.len(), 2);
        assert_eq!((read[0].label("pod"), read[0].value), (Some("llm-0"), 42.0));
        assert_eq!(read[0].label("b"), None);
        assert_eq!(read[1].value, 15.0);
    }

    #[test]
    fn quotes_and_braces_belong_to_the_label_value() {
        let text = r#"A{m="a \"b\" {c}, d\\e\n=",n="2"} 1"#;
        let read = parse_samples(text, &["A"]);
        assert_eq!(read[0].label("m"), Some("a \"b\" {c}, d\\e\n="));
        assert_eq!(read[0].label("n"), Some("2"));
    }

    #[test]
    fn invalid_lines_are_skipped() {
        for wrong in [
            "A",
            "A{",
            "A{x=1} 2",
            "A{x=\"1} 2",
            "A{x=\"1\"",
            "A{x=\"1\"}",
            "A one",
            "A{x=\"\\",
        ] {
            assert_eq!(parse_samples(wrong, &["A"]), [], "{wrong}");
        }
    }
}
