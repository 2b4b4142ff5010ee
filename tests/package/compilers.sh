# Runs in a clean system with both compilers of a release, named by $COMPILERS: builds the program with each, and runs it.
mkdir /src
tar -xf /test/sources.tar -C /src
for compiler in $COMPILERS; do
  cmake -S /src -B "/build/$compiler" -G Ninja -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS_RELEASE="-O1" \
    -DCMAKE_UNITY_BUILD=ON -DPENSTOCK_BUILD_TESTS=OFF -DPENSTOCK_WERROR=ON
  ninja -C "/build/$compiler" penstock
  "/build/$compiler/src/cli/penstock" --version
done
