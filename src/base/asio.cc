// Asio's own code, compiled once for the program (ASIO_SEPARATE_COMPILATION) rather than inline in each file.
#include <asio/impl/src.hpp>
