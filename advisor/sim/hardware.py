"""What a device can do: memory, bandwidth and arithmetic, from its vendor's data sheet."""

from dataclasses import dataclass

from advisor.terms.errors import InputError

_GIB = 1 << 30
_TERA = 1e12
_GB_PER_S = 1e9

#: Share of the data sheet's dense FLOP/s that a step's matrix products reach. RTX cards are
#: rated with 32-bit accumulation and reach 0.85, fitted on two recorded vLLM 0.19.0 runs (RTX 4090
#: and RTX PRO 6000, casys-kaist/LLMServingSim bench/examples). Data-centre parts are held back by
#: power: between the 0.3 to 0.45 that public simulators assume for whole prefill steps (BLIS
#: hardware_config.json) and what a large product alone reaches.
_RTX, _SXM, _PCIE, _CPU = 0.85, 0.6, 0.5, 0.7


@dataclass(frozen=True, slots=True)
class Hardware:
    """One device."""

    name: str
    #: what the driver reports as the device's total, a little under the name's figure
    memory_bytes: int
    bandwidth_bytes_per_s: float
    #: dense, without sparsity, by element type; None where the device has no such units
    flops_16bit: float
    flops_fp8: float | None
    flops_int8: float | None
    #: share of the FLOP/s above that matrix products reach
    compute_efficiency: float
    #: one direction, between two devices of a tensor-parallel group; None where never paired
    link_bytes_per_s: float | None
    source: str
    is_cpu: bool = False


def _gpu(
    name: str,
    gib: float,
    gb_per_s: float,
    tflops: tuple[float, float | None, float | None],
    efficiency: float,
    link_gb_per_s: float,
    source: str,
) -> Hardware:
    half, fp8, int8 = tflops
    return Hardware(
        name,
        round(gib * _GIB),
        gb_per_s * _GB_PER_S,
        half * _TERA,
        None if fp8 is None else fp8 * _TERA,
        None if int8 is None else int8 * _TERA,
        efficiency,
        link_gb_per_s * _GB_PER_S,
        source,
    )


_NVIDIA = "NVIDIA data sheet: "
_AMD = "AMD data sheet: "
_TABLE = {
    device.name: device
    for device in (
        Hardware(
            "cpu-ddr5",
            64 * _GIB,
            90 * _GB_PER_S,
            2 * _TERA,
            None,
            4 * _TERA,
            _CPU,
            None,
            "two channels of DDR5-5600 (JEDEC JESD79-5: 2 x 8 bytes x 5.6 GT/s)",
            is_cpu=True,
        ),
        _gpu("l4", 22.0, 300, (121, 242, 242), _PCIE, 32, _NVIDIA + "L4"),
        _gpu("a10g", 22.1, 600, (70, None, 140), _PCIE, 32, "AWS, EC2 G5: A10G"),
        _gpu("l40s", 44.4, 864, (362, 733, 733), _PCIE, 32, _NVIDIA + "L40S"),
        _gpu("rtx-4090", 23.5, 1008, (165, 330, 661), _RTX, 32, _NVIDIA + "Ada architecture"),
        # 16-bit and FP8 products accumulate in 32 bits, at half the rate of the headline figure.
        _gpu(
            "rtx-5090",
            31.4,
            1792,
            (210, 419, 838),
            _RTX,
            64,
            _NVIDIA + "RTX Blackwell",
        ),
        _gpu("rtx-pro-6000", 94.9, 1597, (500, 1000, 1000), _RTX, 64, _NVIDIA + "RTX PRO 6000 SE"),
        _gpu("a100-40gb-sxm", 39.4, 1555, (312, None, 624), _SXM, 300, _NVIDIA + "A100 40GB SXM"),
        _gpu("a100-80gb-sxm", 79.1, 2039, (312, None, 624), _SXM, 300, _NVIDIA + "A100 80GB SXM"),
        _gpu("h100-pcie", 79.1, 2000, (756, 1513, 1513), _PCIE, 64, _NVIDIA + "H100 PCIe"),
        _gpu("h100-nvl", 93.1, 3900, (835, 1671, 1671), _PCIE, 300, _NVIDIA + "H100 NVL"),
        _gpu("h100-sxm", 79.1, 3350, (989, 1979, 1979), _SXM, 450, _NVIDIA + "H100 SXM"),
        _gpu("h200", 139.7, 4800, (989, 1979, 1979), _SXM, 450, _NVIDIA + "H200 SXM"),
        _gpu("b200", 179.1, 8000, (2250, 4500, 4500), _SXM, 900, _NVIDIA + "DGX B200"),
        _gpu("mi300x", 191.0, 5300, (1307, 2615, 2615), _PCIE, 448, _AMD + "Instinct MI300X"),
    )
}


def hardware_names() -> tuple[str, ...]:
    """Every device the simulator knows."""
    return tuple(_TABLE)


def hardware(name: str) -> Hardware:
    """A device by name; raises InputError that lists the known ones."""
    found = _TABLE.get(name)
    if found is None:
        raise InputError(f"hardware {name!r}: unknown; one of {', '.join(_TABLE)}")
    return found
