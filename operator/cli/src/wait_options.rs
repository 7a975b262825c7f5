//! The timeout of commands with `--wait`.

use std::time::Duration;

/// The timeout of a command with `--wait`.
#[derive(clap::Args, Clone, Copy, Debug, Default)]
pub struct WaitTimeout {
    /// Stop waiting after this time (90s, 5m, 2h), with exit status 124.
    /// Default: no timeout.
    #[arg(long, value_name = "TIME", value_parser = parse_duration, requires = "wait")]
    timeout: Option<Duration>,
}

impl WaitTimeout {
    /// The timeout. None: no timeout.
    #[must_use]
    pub fn as_duration(self) -> Option<Duration> {
        self.timeout
    }
}

/// Parses a time like kubectl's `--timeout`: one or more numbers with units.
pub(crate) fn parse_duration(written: &str) -> Result<Duration, String> {
    let wrong = || format!("{written:?} is not a time: write 90s, 5m, 2h or 1h30m");
    let mut rest = written;
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
        let (number, tail) = rest.split_at(digits);
        let unit = tail
            .find(|c: char| c.is_ascii_digit())
            .unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit);
        let seconds = match unit {
            "s" => 1,
            "m" => 60,
            "h" => 3600,
            "d" => 86_400,
            _ => return Err(wrong()),
        };
        let number: u64 = number.parse().map_err(|_| wrong())?;
        let part = number.checked_mul(seconds).ok_or_else(wrong)?;
        total = total
            .checked_add(Duration::from_secs(part))
            .ok_or_else(wrong)?;
        rest = tail;
    }
    if total.is_zero() {
        return Err(wrong());
    }
    Ok(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duration_is_parsed_as_kubectl_does() {
        for (written, seconds) in [
            ("90s", 90),
            ("5m", 300),
            ("2h", 7200),
            ("1h30m", 5400),
            ("1d", 86_400),
        ] {
            assert_eq!(
                parse_duration(written),
                Ok(Duration::from_secs(seconds)),
                "{written}"
            );
        }
        for wrong in [
            "",
            "5",
            "m",
            "5x",
            "0s",
            "-5s",
            "1.5h",
            "99999999999999999999h",
            "18446744073709551615h",
        ] {
            assert!(parse_duration(wrong).is_err(), "{wrong}");
        }
    }
}
