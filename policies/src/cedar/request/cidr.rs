//! Networks, written in the one way that Cedar compares.

use std::net::IpAddr;

/// Bits of an IPv6 address before the IPv4 address that it stands for
/// (RFC 4291, 2.5.5.2).
const MAPPED_BITS: u8 = 96;

/// A network in CIDR notation, with host bits cleared. An IPv4-mapped IPv6 network becomes the IPv4
/// network, so that `::ffff:10.0.0.1/128` cannot bypass a policy on 10.0.0.0/8. None: invalid.
pub(crate) fn canonical_cidr(cidr: &str) -> Option<String> {
    let (address, bits) = cidr.split_once('/')?;
    let (address, bits) = (address.parse::<IpAddr>().ok()?, bits.parse::<u8>().ok()?);
    let (address, bits) = match address {
        IpAddr::V6(v6) => match (v6.to_ipv4_mapped(), bits.checked_sub(MAPPED_BITS)) {
            (Some(v4), Some(bits)) => (IpAddr::V4(v4), bits),
            _ => (address, bits),
        },
        IpAddr::V4(_) => (address, bits),
    };
    match address {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(32_u32.checked_sub(bits.into())?);
            let network = std::net::Ipv4Addr::from(u32::from(v4) & mask.unwrap_or(0));
            Some(format!("{network}/{bits}"))
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(128_u32.checked_sub(bits.into())?);
            let network = std::net::Ipv6Addr::from(u128::from(v6) & mask.unwrap_or(0));
            // Cedar does not parse the dotted notation that Rust prints.
            let parts: Vec<_> = network.segments().map(|s| format!("{s:x}")).into();
            Some(format!("{}/{bits}", parts.join(":")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::canonical_cidr;

    #[test]
    fn network_has_one_canonical_form() {
        for (written, expected) in [
            ("10.20.0.0/16", Some("10.20.0.0/16")),
            ("10.20.3.4/16", Some("10.20.0.0/16")),
            ("1.2.3.4/32", Some("1.2.3.4/32")),
            ("1.2.3.4/0", Some("0.0.0.0/0")),
            ("::ffff:10.0.0.1/128", Some("10.0.0.1/32")),
            ("::ffff:a00:1/104", Some("10.0.0.0/8")),
            ("::/0", Some("0:0:0:0:0:0:0:0/0")),
            ("::ffff:10.0.0.1/64", Some("0:0:0:0:0:0:0:0/64")),
            ("FD00::1/8", Some("fd00:0:0:0:0:0:0:0/8")),
            ("10.0.0.0/33", None),
            ("::/129", None),
            ("10.0.0.0", None),
            ("ten/8", None),
        ] {
            assert_eq!(canonical_cidr(written).as_deref(), expected, "{written}");
        }
    }
}
