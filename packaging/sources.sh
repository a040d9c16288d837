# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# The sources that packages are built from: the checkout's files as they are.  Sourced after common.sh.

# Deleted files are tracked until that is committed.
existing() {
  local file
  while IFS= read -r -d '' file; do
    if [[ -e $PPC_TOP/$file ]]; then printf '%s\0' "$file"; fi
  done
}

# copy_sources DIR: tracked and new files; without git all but build/.
copy_sources() {
  rm -rf "$1"
  mkdir -p "$1"
  if git -C "$PPC_TOP" rev-parse --git-dir >/dev/null 2>&1; then
    git -C "$PPC_TOP" ls-files -co --exclude-standard -z
  else
    (cd "$PPC_TOP" && find . -path ./build -prune -o -type f -print0)
  fi | existing | tar -c -C "$PPC_TOP" --null -T - | tar -x -C "$1"
}
