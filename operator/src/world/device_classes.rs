//! DeviceClasses, as the watch shows them.

use super::Watched;
use crate::key::Key;
use crate::scheduling::Feed;
use crate::watch::{Sink, SlimDeviceClass};

impl Sink<SlimDeviceClass> for Watched {
    /// A cluster without dynamic resource allocation has none.
    const MAY_BE_ABSENT: bool = true;

    fn apply(&self, key: Key, object: SlimDeviceClass) {
        let before = self.world.device_classes.get(&key);
        let changed = before.is_none_or(|before| before.spec != object.spec);
        self.world.device_classes.observed(key, object);
        if changed {
            self.world.tell(Feed::DeviceClass);
        }
    }

    fn delete(&self, key: &Key, uid: &str) {
        self.world.device_classes.deleted(key, uid);
        self.world.tell(Feed::DeviceClass);
    }

    fn synced(&self) {
        self.listed();
    }

    fn unknown(&self) {
        self.listed();
    }
}
