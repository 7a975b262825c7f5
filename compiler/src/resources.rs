//! What one pod requests.

use std::collections::BTreeMap;

use trellis_api::Quantity;
use trellis_api::job::TaskGroup;
use trellis_api::quantity::Amount;

const CPU: &str = "cpu";
const MEMORY: &str = "memory";
const EPHEMERAL_STORAGE: &str = "ephemeral-storage";

/// More than any node has, and still countable in thousandths. It stands in
/// for a quantity that cannot be read, which validation refuses: should one
/// come this far, its pod fits nowhere, instead of everywhere.
const FITS_NOWHERE: Amount = Amount::from_units(i64::MAX / 1000);

/// What one pod of the group requests, as it was written, by resource name.
///
/// Devices of which none are asked are left out. `gpus` has the last word on
/// its resource, should `extended` name it too.
pub(crate) fn of(group: &TaskGroup) -> BTreeMap<String, Quantity> {
    let asked = &group.resources;
    let mut resources = BTreeMap::from([
        (CPU.to_owned(), asked.cpu.clone()),
        (MEMORY.to_owned(), asked.memory.clone()),
    ]);
    if let Some(disk) = &asked.ephemeral_storage {
        resources.insert(EPHEMERAL_STORAGE.to_owned(), disk.clone());
    }
    let devices = asked.extended.iter();
    resources.extend(
        devices
            .filter(|(_, count)| amount(count) != Amount::ZERO)
            .map(|(name, count)| (name.clone(), count.clone())),
    );
    if group.gpus() > 0 {
        resources.insert(
            group.gpu_resource().to_owned(),
            Quantity::from_units(i64::from(group.gpus())),
        );
    }
    resources
}

/// Names of the devices among what is requested.
pub(crate) fn devices(resources: &BTreeMap<String, Quantity>) -> impl Iterator<Item = &str> {
    resources
        .keys()
        .map(String::as_str)
        .filter(|name| ![CPU, MEMORY, EPHEMERAL_STORAGE].contains(name))
}

/// What a quantity is worth.
pub(crate) fn amount(quantity: &Quantity) -> Amount {
    quantity.amount().unwrap_or(FITS_NOWHERE)
}
