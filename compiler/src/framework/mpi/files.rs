//! The files of MPI jobs: the hosts, and scripts that run ssh and sshd as the container's user.

use super::{HYDRA_HOSTFILE, KEY_PATH, SSH_PORT, SSH_SCRIPT, SSHD_SCRIPT};
use crate::framework::{FrameworkFiles, HOSTFILE, HOSTS_PATH, hostfile};
use crate::gang_facts::GangFacts;

pub(super) fn config_map_files(gang: &GangFacts<'_>) -> FrameworkFiles {
    let hydra = hostfile::host_lines(gang, |host, slots| format!("{host}:{slots}"));
    vec![
        (HOSTFILE, hostfile::slots_hostfile(gang)),
        (HYDRA_HOSTFILE, hydra),
        (SSH_SCRIPT, ssh_script()),
        ("ssh_config", ssh_config()),
        (SSHD_SCRIPT, sshd_script()),
        ("sshd_config", sshd_config()),
    ]
}

/// Script that mpirun runs instead of ssh. It waits for the host, because mpirun tries only once.
/// It skips options before the host by whether they take a value (ssh(1)).
fn ssh_script() -> String {
    format!(
        r#"#!/bin/sh
# ssh to a worker of this job, as soon as its sshd answers (for 5 minutes).
key={KEY_PATH}/key
# Of a key of their own ssh wants that nobody else may read it.
[ "$(id -u)" != 0 ] || key={KEY_PATH}/root-key
host=
value=
for word in "$@"; do
    if [ -n "$value" ]; then
        value=
        continue
    fi
    case $word in
        -[BbcDEeFIiJLlmOoPpQRSWw]) value=yes ;;
        -*) ;;
        *) host=$word; break ;;
    esac
done
left=300
until [ "$left" -le 0 ] || ssh -F {HOSTS_PATH}/ssh_config -i "$key" -n -q "$host" true; do
    left=$((left - 1))
    sleep 1
done
exec ssh -F {HOSTS_PATH}/ssh_config -i "$key" "$@"
"#
    )
}

/// The workers of a job have one key, which is that of their hosts, too.
fn ssh_config() -> String {
    format!(
        "Host *
    Port {SSH_PORT}
    BatchMode yes
    ConnectTimeout 5
    GlobalKnownHostsFile /dev/null
    HostKeyAlgorithms ecdsa-sha2-nistp521
    IdentitiesOnly yes
    LogLevel ERROR
    PreferredAuthentications publickey
    StrictHostKeyChecking yes
    UserKnownHostsFile {KEY_PATH}/known_hosts
"
    )
}

/// Script that runs in a worker without a command. Remote commands get the image's PATH and
/// LD_LIBRARY_PATH, where its MPI is installed; sshd passes no other variables of the image.
fn sshd_script() -> String {
    format!(
        r#"#!/bin/sh
# sshd for mpirun, as whoever this container runs as.
key={KEY_PATH}/key
if [ "$(id -u)" = 0 ]; then
    key={KEY_PATH}/root-key
    case $(sed -n 's/^CapEff:[[:space:]]*//p' /proc/self/status) in
        *[1-9a-f]*) ;;
        *)
            echo 'sshd cannot run as root without capabilities: set spec.securityContext.runAsUser to a user that the image has' >&2
            exit 1
            ;;
    esac
fi
sshd=$(command -v sshd) || sshd=/usr/sbin/sshd
exec "$sshd" -D -e -f {HOSTS_PATH}/sshd_config -h "$key" \
    -o "SetEnv \"PATH=$PATH\" \"LD_LIBRARY_PATH=${{LD_LIBRARY_PATH-}}\""
"#
    )
}

fn sshd_config() -> String {
    format!(
        "Port {SSH_PORT}
PidFile none
AuthenticationMethods publickey
AuthorizedKeysFile {KEY_PATH}/authorized_keys
PermitRootLogin prohibit-password
# Files of volumes are root's, below folders that all may write to.
StrictModes no
UsePAM no
AllowAgentForwarding no
AllowTcpForwarding no
PermitTunnel no
PrintMotd no
X11Forwarding no
# mpirun connects to all at once.
MaxStartups 4096
"
    )
}
