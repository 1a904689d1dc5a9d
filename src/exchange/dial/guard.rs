//! Which addresses are not of the public internet. Pure.
//!
//! After the special-purpose registries (RFC 6890 and its updates). Links that strangers wrote must not lead a crawler
//! into the network it runs in.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Why `address` is not a public one; `None` when it is.
pub(super) fn not_public(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(v4) => v4_kind(v4),
        IpAddr::V6(v6) => v6_kind(v6),
    }
}

/// IPv4 blocks: network, length of the prefix, what they are.
const V4: &[(u32, u32, &str)] = &[
    (0x0000_0000, 8, "this network"),
    (0x0a00_0000, 8, "private"),
    (0x6440_0000, 10, "shared by carriers"),
    (0x7f00_0000, 8, "loopback"),
    (0xa9fe_0000, 16, "link-local"),
    (0xac10_0000, 12, "private"),
    (0xc000_0000, 24, "reserved"),
    (0xc000_0200, 24, "for documentation"),
    (0xc058_6300, 24, "reserved"),
    (0xc0a8_0000, 16, "private"),
    (0xc612_0000, 15, "for benchmarks"),
    (0xc633_6400, 24, "for documentation"),
    (0xcb00_7100, 24, "for documentation"),
    (0xe000_0000, 4, "multicast"),
    (0xf000_0000, 4, "reserved"),
];

fn v4_kind(address: Ipv4Addr) -> Option<&'static str> {
    let bits = u32::from(address);
    V4.iter()
        .find(|(network, length, _)| (bits ^ network) >> (32 - length) == 0)
        .map(|(_, _, kind)| *kind)
}

/// IPv6 blocks within 2000::/3 that are not public; all outside it is not, but for the addresses that hold IPv4 ones.
const V6: &[(u128, u32, &str)] = &[
    (0x2001 << 112, 23, "for protocols"),
    (0x2001_0db8 << 96, 32, "for documentation"),
    (0x3fff << 112, 20, "for documentation"),
];

fn v6_kind(address: Ipv6Addr) -> Option<&'static str> {
    let bits = u128::from(address);
    let within = |network: u128, length: u32| (bits ^ network) >> (128 - length) == 0;
    // The address that a translator or the kernel makes of it.
    if within(0xffff << 32, 96) || within(0x0064_ff9b << 96, 96) {
        return v4_kind(low(bits));
    }
    if within(0x2002 << 112, 16) {
        return v4_kind(low(bits >> 80));
    }
    if within(0x2000 << 112, 3) {
        let found = V6
            .iter()
            .find(|(network, length, _)| within(*network, *length));
        return found.map(|(_, _, kind)| *kind);
    }
    Some(match bits {
        0 => "unspecified",
        1 => "loopback",
        _ if within(0xfc00 << 112, 7) => "private",
        _ if within(0xfe80 << 112, 10) => "link-local",
        _ if within(0xff00 << 112, 8) => "multicast",
        _ => "reserved",
    })
}

/// The IPv4 address in the low 32 bits.
fn low(bits: u128) -> Ipv4Addr {
    let [.., a, b, c, d] = bits.to_be_bytes();
    Ipv4Addr::new(a, b, c, d)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use url::{Host, Url};

    use super::*;

    fn kind(text: &str) -> Option<&'static str> {
        not_public(text.parse().unwrap())
    }

    #[test]
    fn public_addresses_pass() {
        for text in [
            "1.1.1.1",
            "8.8.8.8",
            "100.63.255.255",
            "100.128.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "192.0.1.1",
            "223.255.255.255",
            "2606:4700::1111",
            "2001:200::1",
            "2002:0101:0101::1",
            "64:ff9b::8.8.8.8",
            "::ffff:8.8.8.8",
        ] {
            assert_eq!(kind(text), None, "{text}");
        }
    }

    #[test]
    fn addresses_of_special_purpose_do_not() {
        for text in [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "100.64.0.1",
            "127.0.0.1",
            "127.255.255.254",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.1",
            "192.168.1.1",
            "198.19.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::127.0.0.1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "64:ff9b::10.0.0.1",
            "64:ff9b:1::1",
            "100::1",
            "2001::1",
            "2001:db8::1",
            "2002:7f00:0001::1",
            "3fff::1",
            "5f00::1",
            "fc00::1",
            "fd12:3456::1",
            "fe80::1",
            "fec0::1",
            "ff02::1",
        ] {
            assert!(kind(text).is_some(), "{text}");
        }
    }

    /// URLs write one address in many ways; the URL standard makes one of them.
    #[test]
    fn an_address_is_known_in_every_notation() {
        for host in [
            "127.1",
            "0x7f.1",
            "0177.0.0.1",
            "2130706433",
            "0x7f000001",
            "127.0.0.1.",
            "127.0.0.1",
            "%31%32%37.0.0.1",
            "[::ffff:7f00:1]",
            "[::1]",
        ] {
            let url = Url::parse(&format!("http://{host}/")).unwrap();
            let address = match url.host().unwrap() {
                Host::Ipv4(v4) => IpAddr::V4(v4),
                Host::Ipv6(v6) => IpAddr::V6(v6),
                Host::Domain(name) => panic!("{name}"),
            };
            assert!(not_public(address).is_some(), "{host}");
        }
    }

    proptest! {
        #[test]
        fn wrapped_addresses_are_judged_as_what_they_wrap(bits in any::<u32>()) {
            let v4 = Ipv4Addr::from(bits);
            let [a, b, c, d] = v4.octets().map(u16::from);
            let (high, low) = (a << 8 | b, c << 8 | d);
            let own = v4_kind(v4);
            prop_assert_eq!(v6_kind(v4.to_ipv6_mapped()), own);
            prop_assert_eq!(v6_kind(Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, high, low)), own);
            prop_assert_eq!(v6_kind(Ipv6Addr::new(0x2002, high, low, 0, 0, 0, 0, 1)), own);
            // What the standard library calls private is private here.
            let std = v4.is_private() || v4.is_loopback() || v4.is_link_local() || v4.is_multicast()
                || v4.is_broadcast() || v4.is_documentation() || v4.is_unspecified();
            prop_assert!(!std || own.is_some());
        }
    }
}
