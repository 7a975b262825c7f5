//! Options that mark nodes as unhealthy although their kubelets report them ready.

use trellis_gang::observed::UnhealthyRules;

/// Signs of unhealthy nodes. Such a node gets no new pods, even with tolerations, and its pods are
/// evicted.
#[derive(clap::Args, Clone, Debug)]
pub struct UnhealthyOptions {
    /// Node conditions that mark a node as unhealthy while they are True: it gets no new pods, and
    /// its gangs are evicted and placed elsewhere.
    #[arg(long = "unhealthy-conditions", value_name = "TYPE,...", value_delimiter = ',',
        default_values_t = UnhealthyRules::default().conditions)]
    conditions: Vec<String>,
    /// Node labels that mark a node as unhealthy: it gets no new pods, and its gangs are evicted.
    #[arg(long = "unhealthy-labels", value_name = "KEY=VALUE,...", value_delimiter = ',',
        default_values_t = UnhealthyRules::default().labels, value_parser = label)]
    labels: Vec<String>,
    /// Keys of taints that mark a node as unhealthy: it gets no new pods, even if they tolerate the
    /// taint, and its gangs are evicted.
    #[arg(long = "unhealthy-taints", value_name = "KEY,...", value_delimiter = ',',
        default_values_t = UnhealthyRules::default().taints)]
    taints: Vec<String>,
    /// Share of unhealthy nodes in a zone, among its nodes with GPUs or among the others, from
    /// which on no gang is evicted if more than two are unhealthy: the component that declares
    /// nodes unhealthy may be broken.
    #[arg(long = "unhealthy-zone-threshold", value_name = "SHARE",
        default_value_t = UnhealthyRules::default().zone_threshold, value_parser = share)]
    zone_threshold: f64,
    /// Unhealthy nodes per second whose gangs are evicted, in each zone.
    #[arg(long = "node-eviction-rate", value_name = "NODES",
        default_value_t = UnhealthyRules::default().eviction_rate, value_parser = rate)]
    eviction_rate: f64,
}

impl From<UnhealthyOptions> for UnhealthyRules {
    fn from(options: UnhealthyOptions) -> Self {
        Self {
            conditions: options.conditions,
            labels: options.labels,
            taints: options.taints,
            zone_threshold: options.zone_threshold,
            eviction_rate: options.eviction_rate,
        }
    }
}

/// Parses a share above 0.
fn share(text: &str) -> Result<f64, String> {
    let share = text
        .parse()
        .ok()
        .filter(|share| *share > 0.0 && *share <= 1.0);
    share.ok_or_else(|| "must be more than 0 and at most 1, such as 0.55".to_owned())
}

/// Parses a rate from one node a day to a thousand a second.
fn rate(text: &str) -> Result<f64, String> {
    let rate = text.parse().ok();
    let rate = rate.filter(|rate| (0.000_01..=1000.0).contains(rate));
    rate.ok_or_else(|| "must be 0.00001 to 1000 nodes a second, such as 0.1".to_owned())
}

/// Parses a label as kubectl writes it. An empty text stands for no label.
fn label(text: &str) -> Result<String, String> {
    match text.split_once('=') {
        Some((key, _)) if !key.is_empty() => Ok(text.to_owned()),
        None if text.is_empty() => Ok(String::new()),
        _ => Err(format!(
            "must be KEY=VALUE: write {}=VALUE",
            text.trim_matches('=')
        )),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clap::Parser;

    use super::*;

    #[derive(clap::Parser)]
    struct Program {
        #[command(flatten)]
        unhealthy: UnhealthyOptions,
    }

    #[test]
    fn unhealthy_rules_are_options_with_the_library_defaults() {
        let defaults = UnhealthyRules::from(Program::parse_from(["trellis"]).unhealthy);
        assert_eq!(
            format!("{defaults:?}"),
            format!("{:?}", UnhealthyRules::default())
        );
        let own = [
            "trellis",
            "--unhealthy-conditions=A,B",
            "--unhealthy-labels=",
            "--unhealthy-taints=t",
            "--unhealthy-zone-threshold=0.2",
            "--node-eviction-rate=4",
        ];
        let own = UnhealthyRules::from(Program::parse_from(own).unhealthy);
        assert_eq!(own.conditions, ["A", "B"]);
        assert_eq!(own.labels, [""]);
        assert_eq!(own.taints, ["t"]);
    }

    #[test]
    fn eviction_pace_follows_the_options() {
        let parse = |options: &[&str]| {
            let all = ["program"].iter().chain(options);
            let parsed = Program::try_parse_from(all);
            parsed.map(|program| UnhealthyRules::from(program.unhealthy).pace())
        };
        let pace = parse(&[]).unwrap();
        assert_eq!(pace.interval, Duration::from_secs(10));
        assert!((pace.threshold - 0.55).abs() < f64::EPSILON);
        let pace = parse(&["--node-eviction-rate=4", "--unhealthy-zone-threshold=1"]).unwrap();
        assert_eq!(pace.interval, Duration::from_millis(250));
        assert!((pace.threshold - 1.0).abs() < f64::EPSILON);
        for bad in ["0", "-1", "1.1", "NaN", "inf", "x", ""] {
            let share = format!("--unhealthy-zone-threshold={bad}");
            let error = parse(&[&share]).unwrap_err().to_string();
            assert!(error.contains("more than 0 and at most 1"), "{error}");
        }
        for bad in ["0", "-1", "1001", "NaN", "inf", "x"] {
            let error = parse(&[&format!("--node-eviction-rate={bad}")]);
            let error = error.unwrap_err().to_string();
            assert!(error.contains("0.00001 to 1000"), "{error}");
        }
    }

    #[test]
    fn unhealthy_label_needs_a_key_and_a_value() {
        let parse = |labels: &str| {
            let flag = format!("--unhealthy-labels={labels}");
            Program::try_parse_from(["program", &flag])
        };
        for good in ["a=b", "a=", "a=b,c=d", ""] {
            assert!(parse(good).is_ok(), "{good}");
        }
        for bad in ["foo", "a=b,foo", "=b"] {
            let Err(error) = parse(bad) else {
                panic!("{bad}")
            };
            let error = error.to_string();
            assert!(error.contains("--unhealthy-labels"), "{error}");
            assert!(error.contains("must be KEY=VALUE"), "{error}");
        }
    }
}
