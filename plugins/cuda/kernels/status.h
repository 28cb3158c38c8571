// Result codes of every launch function: a refusal has a name, and nothing is launched.
#pragma once

namespace forkcast {

enum class Status : int {
    kOk = 0,
    kNullPointer = 1,
    kBadShape = 2,            ///< a size is zero or negative, or heads do not divide
    kUnsupportedType = 3,     ///< element type other than float32, float16, bfloat16
    kUnsupportedHeadSize = 4, ///< head size not compiled (64, 128, 256)
    kUnsupportedTaps = 5,     ///< convolution kernel outside 1..8
    kTooManyRows = 6,         ///< more rows than the shared memory tables hold
    kWorkspaceTooSmall = 7,
    kMisaligned = 8,          ///< a row is not a multiple of 16 bytes, or a pointer is not aligned to 16
    kCapacity = 9,            ///< rows would be written past the end of a cache
    kLaunchFailed = 10,       ///< CUDA refused the launch
};

inline const char* status_name(Status status) {
    switch (status) {
        case Status::kOk: return "ok";
        case Status::kNullPointer: return "null pointer";
        case Status::kBadShape: return "bad shape";
        case Status::kUnsupportedType: return "unsupported element type";
        case Status::kUnsupportedHeadSize: return "unsupported head size (compiled: 64, 128, 256)";
        case Status::kUnsupportedTaps: return "unsupported convolution kernel (1 to 8 taps)";
        case Status::kTooManyRows: return "too many rows";
        case Status::kWorkspaceTooSmall: return "workspace too small";
        case Status::kMisaligned: return "misaligned rows or pointers (16 bytes)";
        case Status::kCapacity: return "cache capacity exceeded";
        case Status::kLaunchFailed: return "launch failed";
    }
    return "unknown status";
}

/// Element type of activations, keys, values and caches. States, G and u are float32 whatever it is.
enum class ElementType : int { kFloat32 = 0, kFloat16 = 1, kBFloat16 = 2 };

inline int element_bytes(ElementType type) { return type == ElementType::kFloat32 ? 4 : 2; }

}  // namespace forkcast
