# Sourced: starts a separate Docker engine in a folder, with its own bridge and without changing the packet filter, so
# that other engines on this machine are not affected.
# `docker` then uses this engine.

own_docker_pid=""
own_docker_folder=""
own_docker_bridge=""

# The folder with all files of the engine. PATH finds Compose as a client plugin.
own_docker_start() {
  local folder="$1" tools="${XDG_CACHE_HOME:-$HOME/.cache}/margrave/tools/bin" tries=0
  own_docker_folder="$folder"
  mkdir -p "$folder/config/cli-plugins"
  own_docker_bridge="mgs$$"
  ip link add "$own_docker_bridge" type bridge
  ip address add "10.$((210 + $$ / 256 % 40)).$(($$ % 256)).1/24" dev "$own_docker_bridge"
  ip link set "$own_docker_bridge" up
  dockerd --data-root "$folder/data" --exec-root "$folder/exec" -p "$folder/pid" -H "unix://$folder/docker.sock" \
    "--bridge=$own_docker_bridge" --iptables=false --ip6tables=false --ip-masq=false \
    --default-address-pool "base=10.$((150 + $$ % 50)).0.0/16,size=24" >"$folder/log" 2>&1 &
  own_docker_pid=$!
  export DOCKER_HOST="unix://$folder/docker.sock" DOCKER_CONFIG="$folder/config"
  [ ! -x "$tools/docker-compose" ] || ln -sfn "$tools/docker-compose" "$folder/config/cli-plugins/docker-compose"
  until docker version >/dev/null 2>&1; do
    tries=$((tries + 1))
    if [ "$tries" -gt 300 ] || ! kill -0 "$own_docker_pid" 2>/dev/null; then
      tail -n 20 "$folder/log" >&2
      echo "the Docker engine did not start; \`scripts/tools.sh\` installs it" >&2
      return 1
    fi
    sleep 0.2
  done
}

own_docker_stop() {
  [ -n "$own_docker_pid" ] || return 0
  docker ps -aq 2>/dev/null | xargs -r docker rm -f >/dev/null 2>&1 || true
  # Network bridges would remain after the engine.
  docker network prune -f >/dev/null 2>&1 || true
  kill "$own_docker_pid" 2>/dev/null || true
  wait "$own_docker_pid" 2>/dev/null || true
  own_docker_pid=""
  # The engine leaves the network namespace of its host-network containers mounted.
  umount "$own_docker_folder"/exec/netns/* 2>/dev/null || true
  ip link delete "$own_docker_bridge" 2>/dev/null || true
}
