#!/bin/sh
# What the container file runs while it builds, in /opt/oscine: an environment with oscine and what it runs on.
# Usage: install.sh torch cpu|cuda | oscine EXTRAS | driver | slim
set -eu

HOME_OF_IT=/opt/oscine
PYTHON=$HOME_OF_IT/bin/python
OURS=$HOME_OF_IT/lib/oscine

fail() {
    echo "install.sh: $1" >&2
    exit 1
}

pip() { "$PYTHON" -m pip --disable-pip-version-check --no-cache-dir --quiet "$@"; }
install() { pip install --use-pep517 "$@"; }

# Of torch there is a build for each variant; one of CUDA would make the small image large without a word.
install_torch() {
    python3 -m venv "$HOME_OF_IT"
    if [ "$1" = cuda ]; then
        install 'torch>=2.14'
        "$PYTHON" -c 'import sys, torch; sys.exit(torch.version.cuda is None)' ||
            fail "pip was offered a torch without CUDA: name an index with CUDA builds"
    else
        "$PYTHON" tools/install_torch.py
        "$PYTHON" -c 'import sys, torch; sys.exit(torch.version.cuda is not None)' ||
            fail "pip was offered CUDA builds of torch only: --build-arg TORCH_INDEX_URL=... names an index with CPU builds"
    fi
}

# Everything at the version that was tested, by hash; torch is there already.
install_oscine() {
    locks="-r deploy/locks/run.txt"
    for extra in $(echo "$1" | tr , ' '); do
        [ -e "deploy/locks/$extra.txt" ] || fail "there is no lock for the extra $extra: see deploy/locks"
        locks="$locks -r deploy/locks/$extra.txt"
    done
    # shellcheck disable=SC2086 # a file each
    install --require-hashes $locks
    install --no-deps .
}

# When it first meets a GPU, Triton compiles one C file, its driver, and never another (from 3.8 on). It is compiled
# here, and a script that takes a compiler's arguments hands it out: so the image needs no compiler.
build_driver() {
    DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends gcc libc6-dev libpython3-dev >/dev/null
    mkdir -p "$OURS" /tmp/driver
    # Stands for the GPU's driver while linking; in the running container the real one is there.
    echo '' | gcc -shared -x c -o /tmp/driver/libcuda.so.1 -
    TRITON_LIBCUDA_PATH=/tmp/driver "$PYTHON" - "$OURS/driver.so" <<'END'
import pathlib, shutil, sys, tempfile
from triton.backends.nvidia import driver
from triton.runtime import build

with tempfile.TemporaryDirectory() as folder:
    source = pathlib.Path(driver.dirname, "driver.c")
    made = build._build("cuda_utils", str(source), folder, driver.library_dirs(), driver.include_dirs, driver.libraries, [])
    shutil.copy(made, sys.argv[1])
END
    rm -r /tmp/driver
    cp "$($PYTHON -c 'from triton.backends.nvidia import driver; print(driver.dirname)')/driver.c" "$OURS/driver.c"
    cat >"$OURS/built-driver" <<'END'
#!/bin/sh
# Stands in for a C compiler: SOURCE OPTION... -o OUTPUT OPTION... It knows one source, Triton's driver for NVIDIA GPUs,
# which was compiled when this image was built.
here=$(dirname "$0")
cmp -s "$1" "$here/driver.c" || {
    echo "built-driver: there is no compiler in this image, and $1 is not what it was compiled for" >&2
    exit 1
}
while [ "$1" != -o ]; do shift; done
exec cp "$here/driver.so" "$2"
END
    chmod 755 "$OURS/built-driver"
}

# Takes out what a running service never opens: headers, static libraries, other packages' tests, and what installs
# packages. What pip compiled stays: a read-only root keeps nothing that Python would compile later.
slim() {
    packages=$("$PYTHON" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    pip uninstall --yes setuptools
    pip uninstall --yes pip
    find "$packages" -depth -type d \( -name tests -o -name test \) -exec rm -rf {} +
    find "$packages" -name '*.a' -delete
    rm -rf "$packages"/torch/include "$packages"/torch/share "$packages"/triton/backends/nvidia/include
    rm -rf "$packages"/nvidia/*/include "$packages"/nvidia/*/*/include
    "$HOME_OF_IT/bin/oscine" --help >/dev/null
}

case "${1:-}" in
torch) install_torch "$2" ;;
oscine) install_oscine "$2" ;;
driver) build_driver ;;
slim) slim ;;
*) fail "usage: install.sh torch cpu|cuda | oscine EXTRAS | driver | slim" ;;
esac
