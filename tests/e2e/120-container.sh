# SPDX-License-Identifier: Apache-2.0
# Description: a service in a container (its own process numbers, mounts and root directory) is loaded
# ahead by a runner outside, with no mount but the container's own bind of the model.
# needs observer
. "$(dirname "$0")/maio.sh"
wanted=$(reference_checksum)
root=$WORK/root
mkdir -p "$root"
# in_container COMMAND...: in the service's cgroup; the model is at /model.
# shellcheck disable=SC2016  # what is quoted is for the shells inside
in_container() {
  in_group unshare --mount --propagation private --pid --fork --kill-child bash -ec '
    root=$0 model=$1
    shift
    mount -t tmpfs none "$root"
    mkdir "$root"/{proc,model,old}
    cp "$(command -v loadmodel)" "$root/loadmodel"
    for dir in usr bin lib lib64; do
      if [[ -L /$dir ]]; then cp -P "/$dir" "$root/$dir"; elif [[ -d /$dir ]]; then
        mkdir "$root/$dir"
        mount --bind "/$dir" "$root/$dir"
      fi
    done
    mount --bind "$model" "$root/model"
    mount -t proc none "$root/proc"
    cd "$root"
    pivot_root . old
    umount -l /old
    exec "$@"' "$root" "$MODEL" "$@"
}
# shellcheck disable=SC2016
eq "$(in_container bash -c 'echo $$ /*')" "1 /bin /lib /lib64 /loadmodel /model /old /proc /usr" "the container"
# load: prints what the container's workers made of the model; counts the misses.
load() {
  local report before
  before=$(runner_field '["events"]["miss_bytes"]')
  report=$(in_container /loadmodel --staging "${STAGING_MIB}M" --workers 2 --init-s 3 /model) || fail "the load failed"
  missed=$(($(runner_field '["events"]["miss_bytes"]') - before))
  eq "$(checksum_in "$report")" "$wanted" "checksum in the container"
}
mounts=$(cat /proc/self/mountinfo)
start_with maio '{"prefetch":false}'
drop_caches
start_service svc-box 2
load
alone=$missed
end_service svc-box
must ppcctl rm_policy "$MNT"
register "$MNT" maio
drop_caches
start_service svc-box 2
load
echo "# counted: bytes missed alone=$alone with the runner=$missed loaded=$(runner_field '["loader"]["loaded"]')"
ge "$alone" $((model_bytes * 3 / 4)) "bytes that the container missed alone"
le "$missed" $((model_bytes / 4)) "bytes that it missed with the runner beside it"
ge "$(runner_field '["loader"]["loaded"]')" $((model_bytes * 3 / 4)) "bytes that the runner loaded"
end_service svc-box
eq "$(cat /proc/self/mountinfo)" "$mounts" "mounts of this machine"
