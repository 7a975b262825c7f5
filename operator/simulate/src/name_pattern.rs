//! Names and values that depend on the index of a node. Scenarios and end-to-end tests use these
//! patterns.

/// Replaces `{i}` by `index` and `{i/N}` by `index` divided by `N`. Other text in braces stays
/// unchanged.
#[must_use]
pub fn expand(pattern: &str, index: usize) -> String {
    let mut expanded = String::new();
    let mut rest = pattern;
    while let Some((before, after)) = rest.split_once('{') {
        expanded.push_str(before);
        match after
            .split_once('}')
            .and_then(|(inner, tail)| Some((evaluate(inner, index)?, tail)))
        {
            Some((value, tail)) => {
                expanded.push_str(&value.to_string());
                rest = tail;
            }
            None => {
                expanded.push('{');
                rest = after;
            }
        }
    }
    expanded + rest
}

fn evaluate(inner: &str, index: usize) -> Option<usize> {
    match inner.split_once('/') {
        None => (inner == "i").then_some(index),
        Some(("i", divisor)) => index.checked_div(divisor.parse().ok()?),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pattern_expands_the_index() {
        let cases = [
            ("gpu-{i}", 7, "gpu-7"),
            ("r{i/2}", 7, "r3"),
            ("r{i/2}-{i}", 5, "r2-5"),
            ("plain", 5, "plain"),
            ("{j} {i/0} {i", 5, "{j} {i/0} {i"),
            ("{{i}}", 5, "{5}"),
        ];
        for (pattern, index, expected) in cases {
            assert_eq!(expand(pattern, index), expected, "{pattern:?}");
        }
    }
}
