# Runs in the container, with the image's own command as arguments: a client in the same container writes, reads and stops the server.
set -eu
"$@" >/tmp/server.log 2>&1 &
server=$!
i=0
until grep -q '^ready' /tmp/server.log; do
  i=$((i + 1))
  test $i -lt 300 && kill -0 $server || { cat /tmp/server.log; exit 1; }
  sleep 0.2
done
head -c 3000000 /dev/urandom >/tmp/file
penstock cp -q /tmp/file 'nfs://127.0.0.1/made?proto=rdma'
penstock cp -q 'nfs://127.0.0.1/made' /tmp/back
cmp /tmp/file /tmp/back
penstock ctl status | grep -q '^ready$'
kill $server
wait $server
