# For scripts that run a server: in a clean system, in a container, in an emulated processor.

# start COMMAND...: starts the command of a server, and returns when it is ready. $server is its process.
start() {
  : >/tmp/server.log # the line "ready" of an earlier server
  "$@" >/tmp/server.log 2>&1 &
  server=$!
  i=0
  until grep -q '^ready' /tmp/server.log; do
    i=$((i + 1))
    test $i -lt 300 && kill -0 $server || { cat /tmp/server.log; exit 1; }
    sleep 0.2
  done
}
