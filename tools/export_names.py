"""Names of the networks in real_exports.py, grouped by package and family and separated by spaces."""

from __future__ import annotations

YOLO = """
yolov5n yolov8n yolov8n-seg yolov8n-pose yolov8n-cls yolo11n yolo11n-seg yolo11n-pose yolo11n-cls
yolo26n yolo26n-seg yolo26n-pose yolo26n-cls yolov3-tiny yolov6n yolov9t yolov10n yolo12n yolov8n-obb yolo26n-obb
"""

TIMM = {
    "residual": """
resnet18 resnet26d resnext26ts seresnet18 skresnet18 resnest14d gcresnext26ts res2net50_26w_4s dla34 dpn48b
regnetx_002 regnety_002 resnetv2_50 nf_regnet_b0 repvgg_a0 ecaresnet26t hrnet_w18_small resnet10t resnet50_gn
resnet50_clip resnetaa34d resnetblur18 resnetv2_50x1_bit nf_resnet26 gernet_s eca_nfnet_l0 dm_nfnet_f0
regnetz_b16 regnety_008_tv regnetv_040 dla46x_c dla60_res2net res2next50 resnest26d legacy_seresnext26_32x4d
tresnet_m dpn68b test_byobnet test_resnet test_nfnet
""",
    "plain and dense": """
vgg11 densenet121 inception_v3 inception_next_atto vovnet39a ese_vovnet19b_dw cspresnet50 cspdarknet53 darknet53
selecsls42 xception41 hardcorenas_a densenetblur121d inception_v4 inception_resnet_v2 legacy_xception
xception41p selecsls42b cs3darknet_focus_s cs3sedarknet_l cs3edgenet_x sedarknet21 darknetaa53
ese_vovnet19b_slim_dw cspnext_tiny nasnetalarge pnasnet5large
""",
    "mobile": """
mobilenetv2_050 mobilenetv3_small_050 mobilenetv4_conv_small_050 mnasnet_small efficientnet_lite0
efficientnet_b0 tf_efficientnetv2_b0 mixnet_s fbnetc_100 ghostnet_050 ghostnetv2_100 lcnet_050 tinynet_e
spnasnet_100 rexnet_100 semnasnet_075 mobileone_s0 starnet_s1 fastvit_t8 repghostnet_050 edgenext_xx_small
mobilevit_xxs mobilevitv2_050 repvit_m0_9 fasternet_t0 ghostnetv3_050 lcnetv2_small rexnetr_100 cpubone_nano
iformer_t lowformer_b0 starnet_s050 efficientnet_blur_b0 efficientnet_b0_gn efficientnet_es
efficientnet_cc_b0_4e mobilenetv4_hybrid_medium mobilenetv4_conv_aa_medium mobilenetv4_conv_blur_medium
mobilenetv5_300m fastvit_sa12 fastvit_mci0 edgenext_small_rw swiftformer_xs test_efficientnet
""",
    "convnext": """
convnext_atto convnextv2_atto convmixer_768_32 focalnet_tiny_srf hgnetv2_b0 rdnet_tiny poolformer_s12
convnext_zepto_rms convnext_atto_ols mambaout_femto poolformerv2_s12 caformer_s18 test_convnext3 test_mambaout
""",
    "attention": """
vit_tiny_patch16_224 deit_tiny_patch16_224 vit_small_patch14_dinov2 swin_tiny_patch4_window7_224
efficientformer_l1 efficientvit_b0 levit_128s shvit_s1 pvt_v2_b0 coat_lite_tiny mixer_s32_224 gmlp_s16_224
resmlp_12_224 efficientvit_m0 cait_xxs24_224 convit_tiny botnet26t_256 lambda_resnet26t davit_tiny
deit3_small_patch16_224 deit_tiny_distilled_patch16_224 efficientformerv2_s0 eva02_tiny_patch14_224 gcvit_xxtiny
coatnet_nano_rw_224 maxvit_nano_rw_256 mvitv2_tiny nest_tiny_jx nextvit_small pit_ti_224 tiny_vit_5m_224
tnt_s_patch16_224 twins_pcpvt_small twins_svt_small visformer_tiny vit_tiny_r_s16_p8_224
vit_relpos_small_patch16_224 volo_d1_224 xcit_nano_12_p16_224 swinv2_tiny_window8_256 swinv2_cr_tiny_224
efficientvim_m1 levit_conv_128s samvit_base_patch16_224 sam2_hiera_tiny vitamin_small_224 beit_base_patch16_224
flexivit_small vit_wee_patch16_reg1_gap_256 vit_small_patch16_dinov3 sequencer2d_s gmixer_12_224 test_vit
test_vit2 test_vit3
""",
}

TORCHVISION = """
alexnet vgg11 resnet18 resnet50 resnext50_32x4d wide_resnet50_2 squeezenet1_1 googlenet inception_v3 densenet121
mobilenet_v2 mobilenet_v3_small mobilenet_v3_large mnasnet0_5 shufflenet_v2_x0_5 efficientnet_b0
efficientnet_v2_s regnet_y_400mf regnet_x_400mf convnext_tiny vit_b_32 swin_t swin_v2_t maxvit_t
"""
MAPS = """
deeplabv3_mobilenet_v3_large lraspp_mobilenet_v3_large fcn_resnet50
"""
DETECTORS = """
ssdlite320_mobilenet_v3_large retinanet_resnet50_fpn fcos_resnet50_fpn
"""
TRANSFORMERS = """
vit deit dinov2 dinov3_vit dinov3_convnext convnext convnextv2 segformer mobilevit mobilevitv2 resnet regnet
swin poolformer vit_model deit_teacher dinov2_swiglu dinov3_gated swinv2 swin2sr beit levit pvt cvt focalnet
yolos detr dpt depth_anything glpn clip_vision siglip_vision mobilevit_seg mobilenet_v2_seg resnet_basic
regnet_x segformer_cls
"""
CLASSICAL = """
LogisticRegression MLPClassifier MLPRegressor LinearSVC SVC GaussianNB LinearRegression PCA KNeighborsClassifier
RandomForestClassifier
"""
