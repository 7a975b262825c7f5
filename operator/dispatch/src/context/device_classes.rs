//! DeviceClasses, as the watch shows them.

use trellis_cache::watch::Sink;
use trellis_gang::key::Key;
use trellis_gang::observed::SlimDeviceClass;

use super::WatchSink;
use crate::SchedulerEvent;

impl Sink<SlimDeviceClass> for WatchSink {
    /// A cluster without dynamic resource allocation does not know the kind.
    const MAY_BE_ABSENT: bool = true;

    fn apply(&self, key: Key, object: SlimDeviceClass) {
        let before = self.context.cache.device_classes.get(&key);
        let changed = before.is_none_or(|before| before.spec != object.spec);
        self.context
            .cache
            .device_classes
            .insert_observed(key, object);
        if changed {
            self.context.send_event(SchedulerEvent::DeviceClass);
        }
    }

    fn delete(&self, key: &Key, uid: &str) {
        self.context.cache.device_classes.delete_observed(key, uid);
        self.context.send_event(SchedulerEvent::DeviceClass);
    }

    fn synced(&self) {
        self.mark_listed();
    }

    fn kind_unknown(&self) {
        self.mark_listed();
    }
}
