//! The part of the list about volumes.

use super::Is::{Free, Has, Judged, Never};
use super::{EXPRESSION, FIELD, Fields, RESOURCE_FIELD};

/// Each kind that is looked at as a whole is a privilege of its own; claims,
/// Secrets, ConfigMaps and images are demands too.
pub(super) const VOLUME: Fields = &[
    ("awsElasticBlockStore", Judged),
    ("azureDisk", Judged),
    ("azureFile", Judged),
    ("cephfs", Judged),
    ("cinder", Judged),
    (
        "configMap",
        Has(&[
            ("defaultMode", Free),
            ("defaultUser", Free),
            ("items", Has(ITEM)),
            ("name", Free),
            ("optional", Free),
        ]),
    ),
    ("csi", Judged),
    (
        "downwardAPI",
        Has(&[
            ("defaultMode", Free),
            ("defaultUser", Free),
            ("items", Has(DOWNWARD)),
        ]),
    ),
    (
        "emptyDir",
        Has(&[("medium", Free), ("mode", Free), ("sizeLimit", Free)]),
    ),
    ("ephemeral", Never("use a claim that is there, or emptyDir")),
    ("fc", Judged),
    ("flexVolume", Judged),
    ("flocker", Judged),
    ("gcePersistentDisk", Judged),
    ("gitRepo", Judged),
    ("glusterfs", Judged),
    ("hostPath", Judged),
    ("image", Judged),
    ("iscsi", Judged),
    ("name", Free),
    ("nfs", Judged),
    (
        "persistentVolumeClaim",
        Has(&[("claimName", Free), ("readOnly", Free)]),
    ),
    ("photonPersistentDisk", Judged),
    ("portworxVolume", Judged),
    (
        "projected",
        Has(&[
            ("defaultMode", Free),
            ("defaultUser", Free),
            ("sources", Has(SOURCE)),
        ]),
    ),
    ("quobyte", Judged),
    ("rbd", Judged),
    ("scaleIO", Judged),
    (
        "secret",
        Has(&[
            ("defaultMode", Free),
            ("defaultUser", Free),
            ("items", Has(ITEM)),
            ("optional", Free),
            ("secretName", Free),
        ]),
    ),
    ("storageos", Judged),
    ("vsphereVolume", Judged),
];

const ITEM: Fields = &[
    ("key", Free),
    ("mode", Free),
    ("path", Free),
    ("user", Free),
];

const DOWNWARD: Fields = &[
    ("fieldRef", Has(FIELD)),
    ("mode", Free),
    ("path", Free),
    ("resourceFieldRef", Has(RESOURCE_FIELD)),
    ("user", Free),
];

const SOURCE: Fields = &[
    (
        "clusterTrustBundle",
        Has(&[
            (
                "labelSelector",
                Has(&[("matchExpressions", Has(EXPRESSION)), ("matchLabels", Free)]),
            ),
            ("name", Free),
            ("optional", Free),
            ("path", Free),
            ("signerName", Free),
            ("user", Free),
        ]),
    ),
    (
        "configMap",
        Has(&[("items", Has(ITEM)), ("name", Free), ("optional", Free)]),
    ),
    ("downwardAPI", Has(&[("items", Has(DOWNWARD))])),
    ("podCertificate", Judged),
    (
        "secret",
        Has(&[("items", Has(ITEM)), ("name", Free), ("optional", Free)]),
    ),
    // A demand to use the ServiceAccount.
    (
        "serviceAccountToken",
        Has(&[
            ("audience", Free),
            ("expirationSeconds", Free),
            ("path", Free),
            ("user", Free),
        ]),
    ),
];
