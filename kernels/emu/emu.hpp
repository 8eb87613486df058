// emu.hpp: what the host program calls; src/device/emu/sys.rs declares the same.
// Place      Implemented by emu.cpp (running) and by the generated table of kernels.
#pragma once
#include <cstddef>
#include <cstdint>

extern "C" {

/// A buffer that the kernels of a launch may touch.
struct EmuBuffer {
    uint8_t* start;
    size_t n_bytes;
};

/// One launch. `buffers` are in ascending order and do not overlap.
struct EmuLaunch {
    uint32_t kernel;
    uint32_t grid[3];
    uint32_t n_shared;
    /// In which order lanes and warps run: 0 ascending, 1 descending, 2 shuffled.
    uint32_t order;
    const void* params;
    size_t n_params;
    const EmuBuffer* buffers;
    size_t n_buffers;
};

/// Run a launch to its end. 0, or 1 with a text in `message`.
int tether_emu_launch(const EmuLaunch* launch, char* message, size_t n_message);

}

/// One entry point, made by build.rs from the manifest.
struct EmuKernel {
    const char* name;
    void (*run)(const void* params);
    size_t n_params;
    uint32_t n_threads;
};
extern const EmuKernel EMU_KERNELS[];
extern const uint32_t N_EMU_KERNELS;
