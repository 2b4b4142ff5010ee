# Runs in the container: serves the folder $1, and a client beside the server writes and reads. What it writes belongs to the container's user.
set -eu
. /test/serving.sh
start penstock serve "$1"
head -c 3000000 /dev/urandom >/tmp/file
penstock cp -q /tmp/file 'nfs://127.0.0.1/made?proto=rdma'
penstock cp -q 'nfs://127.0.0.1/made' /tmp/back
cmp /tmp/file /tmp/back
cmp /tmp/file "$1/made"
test "$(stat -c %u "$1/made")" = "$(id -u)"
penstock ctl status | grep -q '^ready$'
kill $server
wait $server
