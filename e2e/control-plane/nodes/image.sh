#!/bin/sh
# Makes the one image of real nodes' pods in the new folder $1, of packages of this machine's
# Debian and of the Python packages that the files $2 and $3 name. Nothing is installed on the
# machine:
#
#   rootfs/    containerd, runc and CNI plugins for the nodes, and for pods a shell, Python,
#              PyTorch, JAX in /opt/jax, Ray in /opt/ray, Open MPI, ssh, a user `train` of id 1000
#   image.tar  an OCI archive with an empty layer: nodes lay rootfs/ in its place (node.sh)
#
# PyTorch, JAX or Ray that cannot be installed is left out, with a message; all else is an error.
set -eu
to=$1 jax_requirements=$2 ray_requirements=$3
root=$to/rootfs work=$to/work
trap 'rm -rf "$work"' EXIT
mkdir -p "$root" "$work/state/lists/partial" "$work/cache/archives/partial"
: >"$work/status"

# With a state of its own, in which nothing is installed: packages come with all that they need.
apt() {
    apt-get -qq -o Dir::State="$work/state" -o Dir::State::status="$work/status" \
        -o Dir::Cache="$work/cache" -o APT::Sandbox::User=root \
        -o APT::Install-Recommends=false "$@" >/dev/null
}
download() { apt --yes --download-only install "$@"; }

apt update
download containerd runc containernetworking-plugins \
    bash busybox-static coreutils dash hostname procps \
    openmpi-bin openssh-client openssh-server python3 python3-mpi4py
download python3-torch || echo "no PyTorch: this machine has no package python3-torch"

# Packages differ in whether they know that /bin is /usr/bin.
for folder in bin sbin lib lib64; do
    mkdir -p "$root/usr/$folder"
    ln -s "usr/$folder" "$root/$folder"
done
for package in "$work"/cache/archives/*.deb; do
    dpkg-deb --fsys-tarfile "$package" | tar -x -C "$root" --keep-directory-symlink \
        --exclude=./usr/share/doc --exclude=./usr/share/man --exclude=./usr/share/locale \
        --exclude=./usr/include
done

# What the packages' own scripts would have done.
for library in "$root"/usr/lib/*/blas/libblas.so.3 "$root"/usr/lib/*/lapack/liblapack.so.3; do
    [ ! -e "$library" ] || ln -sf "$(basename "$(dirname "$library")")/$(basename "$library")" \
        "$(dirname "$library")/.."
done
ln -sf mpirun.openmpi "$root/usr/bin/mpirun"
mkdir -p "$root/home/train" "$root/app" "$root/opt"
chown 1000:1000 "$root/home/train"
cat >"$root/etc/passwd" <<'END'
root:x:0:0:root:/root:/bin/bash
train:x:1000:1000::/home/train:/bin/bash
nobody:x:65534:65534::/nonexistent:/usr/sbin/nologin
END
printf 'root:x:0:\ntrain:x:1000:\nnogroup:x:65534:\n' >"$root/etc/group"

python=$(readlink "$root/usr/bin/python3")
install() {
    python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore \
        --only-binary=:all: --python-version "${python#python}" --target "$root/opt/$1" \
        --requirement "$2" || {
        echo "no $1: pip cannot install $2"
        rm -rf "$root/opt/$1"
    }
}
install jax "$jax_requirements"
install ray "$ray_requirements"
if [ -d "$root/opt/ray" ]; then
    # pip's own script names the Python of this machine.
    cat >"$root/opt/ray/bin/ray" <<'END'
#!/usr/bin/python3
from ray.scripts.scripts import main

main()
END
    chmod +x "$root/opt/ray/bin/ray"
fi

# The first import compiles, and leaves what the pods' imports then find.
inside() {
    # shellcheck disable=SC2016
    unshare --mount sh -c 'mount --bind /dev "$1/dev" && shift && exec chroot "$@"' \
        sh "$root" "$root" "$@"
}
torch=$root/usr/lib/python3/dist-packages/torch
if [ -d "$torch" ]; then
    # Flags of Python 3.11 no longer count 0 among themselves, which PyTorch 1.13 expects.
    sed -i 's/for s in Std:/for s in Std.__members__.values():/' \
        "$torch/distributed/elastic/multiprocessing/api.py"
    inside python3 -c 'import torch.distributed.run, torch.nn.parallel'
fi
if [ -d "$root/opt/jax" ]; then
    inside env PYTHONPATH=/opt/jax python3 -c 'import jax.numpy'
fi
if [ -d "$root/opt/ray" ]; then
    inside env PYTHONPATH=/opt/ray python3 -c 'import ray.scripts.scripts'
fi

# The image: one layer with one file, by which node.sh finds where it was unpacked.
oci=$work/oci
mkdir -p "$oci/blobs/sha256" "$work/layer"
: >"$work/layer/.trellis-rootfs"
blob() {
    sum=$(sha256sum "$1" | cut -d ' ' -f 1)
    size=$(stat -c %s "$1")
    mv "$1" "$oci/blobs/sha256/$sum"
    described='"digest":"sha256:'$sum'","size":'$size
}
tar -cf "$work/blob" -C "$work/layer" .trellis-rootfs
blob "$work/blob"
layer=$described diff=$sum
cat >"$work/blob" <<END
{"architecture":"$(dpkg --print-architecture)","os":"linux",
 "config":{"Cmd":["/usr/bin/busybox","sleep","2147483647"],
  "Env":["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]},
 "rootfs":{"type":"layers","diff_ids":["sha256:$diff"]}}
END
blob "$work/blob"
config=$described
cat >"$work/blob" <<END
{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json",
 "config":{"mediaType":"application/vnd.oci.image.config.v1+json",$config},
 "layers":[{"mediaType":"application/vnd.oci.image.layer.v1.tar",$layer}]}
END
blob "$work/blob"
cat >"$oci/index.json" <<END
{"schemaVersion":2,"manifests":[
 {"mediaType":"application/vnd.oci.image.manifest.v1+json",$described,
  "annotations":{"io.containerd.image.name":"registry.example/train:1.0"}}]}
END
echo '{"imageLayoutVersion":"1.0.0"}' >"$oci/oci-layout"
tar -cf "$to/image.tar" -C "$oci" oci-layout index.json blobs
