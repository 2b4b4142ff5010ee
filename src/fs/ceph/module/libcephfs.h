// libcephfs's header for C++. To C++ it leaves undefined what names an inode, because Ceph's own C++ code defines that
// differently; the layout is the same.
#pragma once

#include <cstdint>

struct inodeno_t {
  uint64_t val;
};
struct snapid_t {
  uint64_t val;
};
struct vinodeno_t {
  inodeno_t ino;
  snapid_t snapid;
};

#include <cephfs/libcephfs.h>
