# Runs in a clean system, as root, with the packages in /test: builds the examples of libpenstock-dev with what the packages install, and
# runs them with `penstock serve` and with each other.
. /test/serving.sh
export DEBIAN_FRONTEND=noninteractive
find / -xdev -not -path '/proc/*' -not -path '/sys/*' -not -path '/test*' -not -path '/var/cache/man/*' -name '*penstock*' | sort >/tmp/before
test ! -s /tmp/before
apt-get install -y --no-install-recommends /test/*.deb
dpkg --verify penstock libpenstock1 libpenstock-dev python3-penstock
man -w 3 libpenstock
test -e /usr/share/doc/libpenstock-dev/docs/library.md

# Built as their comments say, and by a project of CMake.
examples=/usr/share/doc/libpenstock-dev/examples
mkdir /tmp/built
cd /tmp/built
flags=$(pkg-config --cflags --libs penstock)
pkg-config --exact-version "$(penstock --version | sed 's/^penstock \([0-9.]*\).*/\1/;q')" penstock
for program in copy_tree many_reads; do
  cc -Wall -Wextra -Werror -o $program $examples/library/$program.c $flags
done
g++ -std=c++20 -Wall -Wextra -Werror -o async_read $examples/library/async_read.cpp $flags
g++ -std=c++20 -Wall -Wextra -Werror -o memory_server $examples/memory_server/main.cc $flags
g++ -std=c++20 -Wall -Wextra -Werror -o loopback_provider $examples/loopback_provider/main.cc $flags
g++ -std=c++20 -Wall -Wextra -Werror -o archive_server $examples/archive/*.cc $flags $(pkg-config --cflags --libs libarchive)
awk '/^```/ { ++fence; next } fence == 1' /usr/share/doc/libpenstock-dev/docs/library.md >first.c
cc -Wall -Wextra -Werror -o first first.c $flags
mkdir project
cat >project/CMakeLists.txt <<END
cmake_minimum_required(VERSION 3.25)
project(example LANGUAGES C CXX)
find_package(penstock 0.1 REQUIRED)
add_executable(copy_tree $examples/library/copy_tree.c)
add_executable(async_read $examples/library/async_read.cpp)
target_compile_features(async_read PRIVATE cxx_std_20)
foreach(program copy_tree async_read)
  target_link_libraries(\${program} PRIVATE penstock::penstock)
endforeach()
END
cmake -S project -B project/build
cmake --build project/build
for program in copy_tree many_reads async_read memory_server archive_server loopback_provider first project/build/copy_tree project/build/async_read; do
  ldd $program | grep -q 'libpenstock[.]so[.]1 => /'
done

# Clients of `penstock serve`.
mkdir -p /srv/data/deep/empty
head -c 3000001 /dev/urandom >/srv/data/deep/large
ln -s deep/large /srv/data/link
start penstock serve /srv/data --tcp-port 32149 --rdma-port 32150 --mount-port 32148 --rpcbind off
tcp=nfs://127.0.0.1:32149 rdma=nfs://127.0.0.1:32150
./copy_tree "$tcp/?vers=4.2" /tmp/by_tcp
project/build/copy_tree "$rdma/?proto=rdma" /tmp/by_rdma
for copy in /tmp/by_tcp /tmp/by_rdma; do
  diff -r --no-dereference /srv/data $copy
done
./many_reads "$rdma/deep/large?proto=rdma" | grep -x '1000 reads at the same time have read 3000001 of 3000001 octets'
for program in ./async_read project/build/async_read; do
  $program "$tcp/" deep/large | grep -x 'deep/large: 3000001 octets'
done
for url in "$tcp/tcp.csv" "$rdma/rdma.csv?proto=rdma"; do
  python3 $examples/library/pandas_or_plain.py "$url" | grep -x '2.0 million people, by pandas'
done
cmp /srv/data/tcp.csv /srv/data/rdma.csv
python3 -c 'import asyncio, sys, penstock.aio
async def main():
    async with penstock.aio.connect(sys.argv[1]) as mount:
        assert len(await mount.read_bytes("deep/large")) == 3000001
asyncio.run(main())' "$tcp/"
kill $server
wait $server

# address SERVICE: where the server of an example listens.
address() { sed -n "s/^NFS over $1: //p" /tmp/server.log; }

# Clients of the servers among the examples.
rm /srv/data/*.csv
tar -czf /tmp/data.tar.gz -C /srv data
start ./archive_server /tmp/data.tar.gz /tmp/archive_state
./copy_tree "nfs://$(address TCP)/data" /tmp/archive_by_tcp
./copy_tree "nfs://$(address RDMA)/data?proto=rdma&vers=4.2" /tmp/archive_by_rdma
for copy in /tmp/archive_by_tcp /tmp/archive_by_rdma; do
  diff -r --no-dereference /srv/data $copy
done
kill $server
wait $server

start ./memory_server /tmp/memory_state
penstock cp -q /srv/data/deep/large "nfs://$(address TCP)/large"
python3 $examples/library/pandas_or_plain.py "nfs://$(address RDMA)/table.csv?proto=rdma"
./copy_tree "nfs://$(address RDMA)/?proto=rdma" /tmp/from_memory
cmp /srv/data/deep/large /tmp/from_memory/large
test "$(wc -l </tmp/from_memory/table.csv)" = 4
./async_read "nfs://$(address TCP)/" large | grep -x 'large: 3000001 octets'
kill $server
wait $server

mkdir /tmp/looped
./loopback_provider /tmp/loopback_state /tmp/looped | grep '^3000001 octets are the same'

cd /
rm -r /tmp/built
apt-get purge -y penstock libpenstock1 libpenstock-dev python3-penstock
find / -xdev -not -path '/proc/*' -not -path '/sys/*' -not -path '/test*' -not -path '/var/cache/man/*' -name '*penstock*' | sort >/tmp/after
cat /tmp/after
test ! -s /tmp/after
