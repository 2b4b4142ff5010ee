# Runs in a clean system with the cross compiler and the libraries of arm64: builds for 64-bit ARM, and runs tests in QEMU's emulation of a
# process. Sockets and threads are those of this host.
. /test/serving.sh
mkdir /src
tar -xf /test/sources.tar -C /src
cmake -S /src -B /build -G Ninja -DCMAKE_TOOLCHAIN_FILE=/src/cmake/aarch64.cmake -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS_RELEASE=-O1 \
  -DCMAKE_UNITY_BUILD=ON -DPENSTOCK_WERROR=ON
ninja -C /build base_test xdr_test rdma_iwarp_test rpcrdma_test penstock
cd /build

# The check values are computed by the instructions, not by the tables.
aarch64-linux-gnu-objdump --disassemble src/cli/penstock | grep -q crc32cx

qemu-aarch64 src/cli/penstock --version
for test in base/base_test xdr/xdr_test rdma/iwarp/rdma_iwarp_test rpcrdma/rpcrdma_test; do
  qemu-aarch64 "src/$test" --gtest_brief=1
done

# A server and a client of ARM, over iWARP with check values. Debian 12's QEMU (7.2) does not know openat2(2), so a library does it by
# openat(2).
aarch64-linux-gnu-g++ -std=c++20 -shared -fPIC -o /openat2.so /src/bench/openat2_preload.cc
mkdir /data
start qemu-aarch64 -E LD_PRELOAD=/openat2.so src/cli/penstock serve /data --tcp-port 32149 --rdma-port 32150 --mount-port 32148 --rpcbind off
head -c 3000000 /dev/urandom >/file
qemu-aarch64 src/cli/penstock cp -q /file 'nfs://127.0.0.1:32150/file?proto=rdma'
qemu-aarch64 src/cli/penstock cp -q 'nfs://127.0.0.1:32150/file?proto=rdma' /back
cmp /file /back
cmp /file /data/file
kill $server
wait $server
