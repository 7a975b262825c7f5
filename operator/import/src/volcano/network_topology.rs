//! The network topology of a Job, or of the partitions of a task.
//!
//! Volcano counts tiers from the finest, 1, or names them. Trellis names levels.

use serde_json::Value;
use trellis_api::topology::Closeness;

use crate::context::ImportContext;
use crate::fields::Fields;

/// A request for pods in one domain.
pub(super) struct NetworkTopology {
    pub(super) level: String,
    /// The number of the tier, if the field or a HyperNode of the input has it.
    tier: Option<i64>,
    /// False: the level is only preferred.
    pub(super) is_required: bool,
}

impl NetworkTopology {
    /// Reads `networkTopology`. None: the field is absent, or its level is unknown, which a note
    /// reports.
    pub(super) fn read(owner: &Fields<'_>, context: &ImportContext) -> Option<Self> {
        let fields = owner.object("networkTopology")?;
        let mode = fields.one_of("mode", &["hard", "soft"]);
        let name = fields.text("highestTierName");
        let tier = fields.integer("highestTierAllowed");
        let level = match (name, tier) {
            (Some(_), Some(_)) => {
                let message = "excludes highestTierAllowed, as in Volcano: remove one of the two";
                let path = fields.field_path("highestTierName");
                fields.log().add_problem(&path, message);
                return None;
            }
            (Some(name), None) => {
                fields.log().note(
                    &fields.field_path("highestTierName"),
                    Some(&Value::from(name.as_str())),
                    "is the name of a tier, and becomes the name of a level",
                    "create a Topology with a level of this name (docs/topology.md)",
                );
                name
            }
            (None, Some(tier)) => {
                let Some(name) = context.tier_name(tier) else {
                    fields.note_at(
                        "highestTierAllowed",
                        "is a tier for which the HyperNodes of the input give no single name, and in Trellis levels have names, so the topology is left out",
                        "add HyperNodes with tierName to the input, write highestTierName, or write the topology into the TrainingJob (docs/topology.md)",
                    );
                    return None;
                };
                name.to_owned()
            }
            (None, None) => {
                fields.note(
                    "names no tier, so the topology is left out",
                    "write highestTierName, or write the topology into the TrainingJob (docs/topology.md)",
                );
                return None;
            }
        };
        Some(Self {
            tier: tier.or_else(|| context.tier_number(&level)),
            level,
            // Hard is the default.
            is_required: mode.as_deref() != Some("soft"),
        })
    }

    /// Returns the request of the whole job.
    pub(super) fn to_closeness(&self) -> Closeness {
        let level = || self.level.clone();
        Closeness {
            required: self.is_required.then(level),
            preferred: (!self.is_required).then(level),
            ..Closeness::default()
        }
    }

    /// Returns true if each domain of this request lies within one domain of the level. None: the
    /// order of the two tiers is unknown.
    pub(super) fn is_within(&self, level: &Self) -> Option<bool> {
        if !self.is_required {
            return Some(false);
        }
        if self.level == level.level {
            return Some(true);
        }
        self.tier.zip(level.tier).map(|(own, of)| own <= of)
    }
}
