//! The size of /dev/shm: NCCL and data loaders fail on the runtime's 64 MiB.

use trellis_api::Quantity;
use trellis_api::job::TaskGroup;
use trellis_api::quantity::Amount;

use crate::resources::amount_of;

const GIB: i64 = 1 << 30;
/// Largest default size; no training is known to need more.
const MAX_DEFAULT_SIZE: i64 = 64 * GIB;
/// Binary suffixes, largest first, with their exponents.
const UNITS: [(&str, u32); 3] = [("Gi", 30), ("Mi", 20), ("Ki", 10)];

/// Size of /dev/shm: the group's value, else the profile's, else, with GPUs, the smaller of half
/// the memory and 64Gi, because its content counts as the pod's memory. None: no volume.
pub(super) fn shared_memory_size(
    group: &TaskGroup,
    memory: &Quantity,
    of_profile: Option<&Quantity>,
) -> Option<Quantity> {
    if let Some(asked) = group.shared_memory.as_ref().or(of_profile) {
        return (amount_of(asked) != Amount::ZERO).then(|| asked.clone());
    }
    if group.gpus() == 0 {
        return None;
    }
    let memory = amount_of(memory).ceil_units()?;
    Some(format_bytes(memory.checked_div(2)?.min(MAX_DEFAULT_SIZE)))
}

/// Bytes in the largest binary unit that counts them exactly.
fn format_bytes(bytes: i64) -> Quantity {
    let exact = UNITS.iter().find_map(|(unit, exponent)| {
        let size = 1_i64.checked_shl(*exponent)?;
        let whole = bytes.checked_rem(size)? == 0;
        let count = bytes.checked_div(size)?;
        whole.then(|| Quantity::new(format!("{count}{unit}")))
    });
    exact.unwrap_or_else(|| Quantity::from_units(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(gpus: i64, shared_memory: Option<&str>) -> TaskGroup {
        TaskGroup {
            gpus: Some(gpus),
            shared_memory: shared_memory.map(Quantity::from),
            ..TaskGroup::default()
        }
    }

    #[test]
    fn shared_memory_defaults_to_half_the_memory_up_to_64_gi() {
        for (gpus, memory, asked, expected) in [
            (8, "1000Gi", None, Some("64Gi")),
            (8, "128Gi", None, Some("64Gi")),
            (8, "127Gi", None, Some("65024Mi")),
            (1, "16Gi", None, Some("8Gi")),
            (1, "3Mi", None, Some("1536Ki")),
            (1, "10G", None, Some("5000000000")),
            (1, "1001", None, Some("500")),
            (0, "16Gi", None, None),
            (0, "16Gi", Some("2Gi"), Some("2Gi")),
            (8, "16Gi", Some("12Gi"), Some("12Gi")),
            (8, "16Gi", Some("0"), None),
            (8, "16Gi", Some("0Gi"), None),
        ] {
            let size = shared_memory_size(&group(gpus, asked), &memory.into(), None);
            assert_eq!(
                size.as_ref().map(Quantity::as_str),
                expected,
                "{gpus} {memory} {asked:?}"
            );
        }
        // The profile's, unless the group names one.
        let two = Quantity::from("2Gi");
        for (asked, expected) in [
            (None, Some("2Gi")),
            (Some("1Gi"), Some("1Gi")),
            (Some("0"), None),
        ] {
            let size = shared_memory_size(&group(8, asked), &"16Gi".into(), Some(&two));
            assert_eq!(size.as_ref().map(Quantity::as_str), expected, "{asked:?}");
        }
    }
}
