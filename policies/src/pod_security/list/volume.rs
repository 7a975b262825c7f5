//! The part of the list about volumes.

use super::Is::{Free, Has, Judged, Never};
use super::{EXPRESSION, FIELD, Fields, RESOURCE_FIELD};

/// Each kind that is judged is a privilege of its own. Claims, Secrets, ConfigMaps and images are
/// demands too.
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
    ("ephemeral", Has(&[("volumeClaimTemplate", Has(CLAIM))])),
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

/// A data source would read data that policies on claims were not asked about.
const NO_DATA: &str = "leave it out: mount the claim that has the data";

const CLAIM: Fields = &[
    ("metadata", Has(CLAIM_METADATA)),
    (
        "spec",
        Has(&[
            ("accessModes", Free),
            ("dataSource", Never(NO_DATA)),
            ("dataSourceRef", Never(NO_DATA)),
            ("resources", Has(&[("limits", Free), ("requests", Free)])),
            (
                "selector",
                Has(&[("matchExpressions", Has(EXPRESSION)), ("matchLabels", Free)]),
            ),
            ("storageClassName", Free),
            ("volumeAttributesClassName", Free),
            ("volumeMode", Free),
            (
                "volumeName",
                Never("leave it out: each pod has a volume of its own"),
            ),
        ]),
    ),
];

/// `ValidatePersistentVolumeClaimTemplate` takes no other.
const OF_CLAIM: &str =
    "leave it out: the claim bears labels and annotations of the template, and nothing else";

const CLAIM_METADATA: Fields = &[
    ("annotations", Free),
    ("creationTimestamp", Never(OF_CLAIM)),
    ("deletionGracePeriodSeconds", Never(OF_CLAIM)),
    ("deletionTimestamp", Never(OF_CLAIM)),
    ("finalizers", Never(OF_CLAIM)),
    ("generateName", Never(OF_CLAIM)),
    ("generation", Never(OF_CLAIM)),
    ("labels", Free),
    ("managedFields", Never(OF_CLAIM)),
    ("name", Never(OF_CLAIM)),
    ("namespace", Never(OF_CLAIM)),
    ("ownerReferences", Never(OF_CLAIM)),
    ("resourceVersion", Never(OF_CLAIM)),
    ("selfLink", Never(OF_CLAIM)),
    ("uid", Never(OF_CLAIM)),
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
