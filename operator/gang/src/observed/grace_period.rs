//! The longest termination grace period that Trellis allows external pods.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// Longest grace period of an external pod in seconds, the same as for jobs. Other gangs may wait
/// for the pod's resources.
const MAX_GRACE: i64 = 3_600;

/// Returns the grace period of a pod in seconds, at most an hour. The API server treats a negative
/// value as one second.
pub(super) fn limit_grace(requested: Option<i64>) -> u32 {
    let seconds = match requested.unwrap_or(30) {
        i64::MIN..0 => 1,
        seconds => seconds.min(MAX_GRACE),
    };
    u32::try_from(seconds).unwrap_or(0)
}

/// Returns true if the pod was deleted with a longer grace period than Trellis allows. Trellis
/// deletes such a pod again, with a shorter one.
pub(super) fn has_overlong_grace(meta: &ObjectMeta) -> bool {
    let seconds = meta.deletion_grace_period_seconds;
    meta.deletion_timestamp.is_some() && seconds.is_some_and(|seconds| seconds > MAX_GRACE)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use k8s_openapi::jiff::Timestamp;

    use super::*;

    #[test]
    fn grace_period_is_at_least_a_second_and_at_most_an_hour() {
        assert_eq!(limit_grace(None), 30);
        assert_eq!(limit_grace(Some(-1)), 1);
        assert_eq!(limit_grace(Some(0)), 0);
        assert_eq!(limit_grace(Some(i64::MAX)), 3_600);
    }

    #[test]
    fn only_a_deletion_has_an_overlong_grace_period() {
        let mut meta = ObjectMeta {
            deletion_grace_period_seconds: Some(3_601),
            ..ObjectMeta::default()
        };
        assert!(!has_overlong_grace(&meta));
        meta.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
        assert!(has_overlong_grace(&meta));
        meta.deletion_grace_period_seconds = Some(3_600);
        assert!(!has_overlong_grace(&meta));
    }
}
