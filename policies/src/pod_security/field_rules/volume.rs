//! The part of the list about volumes.

use super::FieldRule::{Checked, Harmless, Nested, Never};
use super::{EXPRESSION, FIELD_REFERENCE, FieldRules, RESOURCE_FIELD};

/// Each kind that is judged is a privilege of its own. Claims, Secrets, ConfigMaps and images are
/// demands too.
pub(super) const VOLUME: FieldRules = &[
    ("awsElasticBlockStore", Checked),
    ("azureDisk", Checked),
    ("azureFile", Checked),
    ("cephfs", Checked),
    ("cinder", Checked),
    (
        "configMap",
        Nested(&[
            ("defaultMode", Harmless),
            ("defaultUser", Harmless),
            ("items", Nested(KEY_TO_PATH)),
            ("name", Harmless),
            ("optional", Harmless),
        ]),
    ),
    ("csi", Checked),
    (
        "downwardAPI",
        Nested(&[
            ("defaultMode", Harmless),
            ("defaultUser", Harmless),
            ("items", Nested(DOWNWARD_ITEM)),
        ]),
    ),
    (
        "emptyDir",
        Nested(&[
            ("medium", Harmless),
            ("mode", Harmless),
            ("sizeLimit", Harmless),
        ]),
    ),
    (
        "ephemeral",
        Nested(&[("volumeClaimTemplate", Nested(CLAIM))]),
    ),
    ("fc", Checked),
    ("flexVolume", Checked),
    ("flocker", Checked),
    ("gcePersistentDisk", Checked),
    ("gitRepo", Checked),
    ("glusterfs", Checked),
    ("hostPath", Checked),
    ("image", Checked),
    ("iscsi", Checked),
    ("name", Harmless),
    ("nfs", Checked),
    (
        "persistentVolumeClaim",
        Nested(&[("claimName", Harmless), ("readOnly", Harmless)]),
    ),
    ("photonPersistentDisk", Checked),
    ("portworxVolume", Checked),
    (
        "projected",
        Nested(&[
            ("defaultMode", Harmless),
            ("defaultUser", Harmless),
            ("sources", Nested(PROJECTED_SOURCE)),
        ]),
    ),
    ("quobyte", Checked),
    ("rbd", Checked),
    ("scaleIO", Checked),
    (
        "secret",
        Nested(&[
            ("defaultMode", Harmless),
            ("defaultUser", Harmless),
            ("items", Nested(KEY_TO_PATH)),
            ("optional", Harmless),
            ("secretName", Harmless),
        ]),
    ),
    ("storageos", Checked),
    ("vsphereVolume", Checked),
];

/// A data source would read data that policies on claims were not asked about.
const NO_DATA_SOURCE: &str = "leave it out: mount the claim that has the data";

const CLAIM: FieldRules = &[
    ("metadata", Nested(CLAIM_METADATA)),
    (
        "spec",
        Nested(&[
            ("accessModes", Harmless),
            ("dataSource", Never(NO_DATA_SOURCE)),
            ("dataSourceRef", Never(NO_DATA_SOURCE)),
            (
                "resources",
                Nested(&[("limits", Harmless), ("requests", Harmless)]),
            ),
            (
                "selector",
                Nested(&[
                    ("matchExpressions", Nested(EXPRESSION)),
                    ("matchLabels", Harmless),
                ]),
            ),
            ("storageClassName", Harmless),
            ("volumeAttributesClassName", Harmless),
            ("volumeMode", Harmless),
            (
                "volumeName",
                Never("leave it out: each pod has a volume of its own"),
            ),
        ]),
    ),
];

/// `ValidatePersistentVolumeClaimTemplate` takes no other.
const NOT_ACCEPTED_BY_KUBERNETES: &str =
    "leave it out: the claim bears labels and annotations of the template, and nothing else";

const CLAIM_METADATA: FieldRules = &[
    ("annotations", Harmless),
    ("creationTimestamp", Never(NOT_ACCEPTED_BY_KUBERNETES)),
    (
        "deletionGracePeriodSeconds",
        Never(NOT_ACCEPTED_BY_KUBERNETES),
    ),
    ("deletionTimestamp", Never(NOT_ACCEPTED_BY_KUBERNETES)),
    ("finalizers", Never(NOT_ACCEPTED_BY_KUBERNETES)),
    ("generateName", Never(NOT_ACCEPTED_BY_KUBERNETES)),
    ("generation", Never(NOT_ACCEPTED_BY_KUBERNETES)),
    ("labels", Harmless),
    ("managedFields", Never(NOT_ACCEPTED_BY_KUBERNETES)),
    ("name", Never(NOT_ACCEPTED_BY_KUBERNETES)),
    ("namespace", Never(NOT_ACCEPTED_BY_KUBERNETES)),
    ("ownerReferences", Never(NOT_ACCEPTED_BY_KUBERNETES)),
    ("resourceVersion", Never(NOT_ACCEPTED_BY_KUBERNETES)),
    ("selfLink", Never(NOT_ACCEPTED_BY_KUBERNETES)),
    ("uid", Never(NOT_ACCEPTED_BY_KUBERNETES)),
];

const KEY_TO_PATH: FieldRules = &[
    ("key", Harmless),
    ("mode", Harmless),
    ("path", Harmless),
    ("user", Harmless),
];

const DOWNWARD_ITEM: FieldRules = &[
    ("fieldRef", Nested(FIELD_REFERENCE)),
    ("mode", Harmless),
    ("path", Harmless),
    ("resourceFieldRef", Nested(RESOURCE_FIELD)),
    ("user", Harmless),
];

const PROJECTED_SOURCE: FieldRules = &[
    (
        "clusterTrustBundle",
        Nested(&[
            (
                "labelSelector",
                Nested(&[
                    ("matchExpressions", Nested(EXPRESSION)),
                    ("matchLabels", Harmless),
                ]),
            ),
            ("name", Harmless),
            ("optional", Harmless),
            ("path", Harmless),
            ("signerName", Harmless),
            ("user", Harmless),
        ]),
    ),
    (
        "configMap",
        Nested(&[
            ("items", Nested(KEY_TO_PATH)),
            ("name", Harmless),
            ("optional", Harmless),
        ]),
    ),
    ("downwardAPI", Nested(&[("items", Nested(DOWNWARD_ITEM))])),
    ("podCertificate", Checked),
    (
        "secret",
        Nested(&[
            ("items", Nested(KEY_TO_PATH)),
            ("name", Harmless),
            ("optional", Harmless),
        ]),
    ),
    // A demand to use the ServiceAccount.
    (
        "serviceAccountToken",
        Nested(&[
            ("audience", Harmless),
            ("expirationSeconds", Harmless),
            ("path", Harmless),
            ("user", Harmless),
        ]),
    ),
];
