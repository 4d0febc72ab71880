"""Small vision networks of transformers for `real_exports`, each with one configuration and without downloads."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

LAYERS: dict[str, Any] = {"num_hidden_layers": 4, "num_attention_heads": 3}
SMALL: dict[str, Any] = {"hidden_size": 192, "intermediate_size": 768, **LAYERS}
STAGES: dict[str, Any] = {"hidden_sizes": [32, 64, 96, 128], "depths": [1, 1, 2, 1]}
TWO_STAGES = {"embed_dim": 24, "depths": [2, 2], "num_heads": [2, 4]}

# For each network: the configuration class, the model class, and the settings that differ from the defaults. If a
# configuration has an `image_size`, it is set to the size used for the export.
NETWORKS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "vit": ("ViT", "ForImageClassification", SMALL),
    "vit_model": ("ViT", "Model", SMALL),
    "deit": ("DeiT", "ForImageClassification", SMALL),
    "deit_teacher": ("DeiT", "ForImageClassificationWithTeacher", SMALL),
    "dinov2": ("Dinov2", "ForImageClassification", {"patch_size": 16, **SMALL}),
    "dinov2_swiglu": ("Dinov2", "Model", {"patch_size": 16, "use_swiglu_ffn": True, **SMALL}),
    "dinov3_vit": ("DINOv3ViT", "Model", {"num_register_tokens": 4, **SMALL}),
    "dinov3_gated": ("DINOv3ViT", "Model", {"use_gated_mlp": True, "hidden_act": "silu", **SMALL}),
    "dinov3_convnext": ("DINOv3ConvNext", "Model", {}),
    "convnext": ("ConvNext", "ForImageClassification", {}),
    "convnextv2": ("ConvNextV2", "ForImageClassification", {"depths": [2, 2, 2, 2]}),
    "segformer": ("Segformer", "ForSemanticSegmentation", {}),
    "segformer_cls": ("Segformer", "ForImageClassification", {}),
    "mobilevit": ("MobileViT", "ForImageClassification", {}),
    "mobilevit_seg": ("MobileViT", "ForSemanticSegmentation", {}),
    "mobilevitv2": ("MobileViTV2", "ForImageClassification", {}),
    "mobilenet_v2_seg": ("MobileNetV2", "ForSemanticSegmentation", {}),
    "resnet": ("ResNet", "ForImageClassification", {"depths": [2, 2, 2, 2]}),
    "resnet_basic": ("ResNet", "ForImageClassification", {"layer_type": "basic", "embedding_size": 16, **STAGES}),
    "regnet": ("RegNet", "ForImageClassification", {}),
    "regnet_x": ("RegNet", "ForImageClassification", {"layer_type": "x", "groups_width": 16, **STAGES}),
    "swin": ("Swin", "ForImageClassification", {}),
    "swinv2": ("Swinv2", "ForImageClassification", {"window_size": 4, **TWO_STAGES}),
    "swin2sr": ("Swin2SR", "ForImageSuperResolution", {"embed_dim": 24, "depths": [2, 2], "num_heads": [2, 2]}),
    "poolformer": ("PoolFormer", "ForImageClassification", {}),
    "beit": ("Beit", "ForImageClassification", {"use_relative_position_bias": True, **SMALL}),
    "levit": ("Levit", "ForImageClassification", {}),
    "pvt": ("Pvt", "ForImageClassification", {}),
    "cvt": ("Cvt", "ForImageClassification", {}),
    "focalnet": ("FocalNet", "ForImageClassification", {"embed_dim": 32}),
    "yolos": ("Yolos", "ForObjectDetection", {"num_detection_tokens": 10, **SMALL}),
    "glpn": ("GLPN", "ForDepthEstimation", {}),
    "clip_vision": ("CLIPVision", "ModelWithProjection", {"patch_size": 16, **SMALL}),
    "siglip_vision": ("SiglipVision", "Model", SMALL),
}
DEPTHS: dict[str, Any] = {"neck_hidden_sizes": [24, 48, 96, 96], "fusion_hidden_size": 32}


def make_transformer(name: str, size: int) -> Any:
    """Return a network with random weights for pictures of `size`."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    hf: Any = import_module("transformers")
    if name == "detr":
        backbone = hf.ResNetConfig(embedding_size=16, out_features=["stage4"], **STAGES)
        options = {"use_timm_backbone": False, "use_pretrained_backbone": False, "backbone": None, "num_queries": 10}
        layers = {"d_model": 64, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 4}
        config = hf.DetrConfig(backbone_config=backbone, decoder_attention_heads=4, **options, **layers)
        return hf.DetrForObjectDetection(config)
    if name == "dpt":
        config = hf.DPTConfig(image_size=size, backbone_out_indices=[0, 1, 2, 3], **DEPTHS, **SMALL)
        return hf.DPTForDepthEstimation(config)
    if name == "depth_anything":
        stage_options = {"out_features": [f"stage{number}" for number in range(1, 5)], "reshape_hidden_states": False}
        backbone = hf.Dinov2Config(image_size=size, **stage_options, **SMALL)
        sides = {"reassemble_hidden_size": SMALL["hidden_size"], **DEPTHS}
        return hf.DepthAnythingForDepthEstimation(hf.DepthAnythingConfig(backbone_config=backbone, **sides))
    family, kind, config_options = NETWORKS[name]
    config_type = getattr(hf, f"{family}Config")
    sized: dict[str, Any] = {}
    if "image_size" in config_type().to_dict():
        sized["image_size"] = [size, size] if name == "yolos" else size
    if name == "swin":
        sized["window_size"] = size // 32
    return getattr(hf, f"{family}{kind}")(config_type(**sized, **config_options))
