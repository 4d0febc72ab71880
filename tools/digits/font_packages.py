"""The Debian 12 packages of the fonts in `fonts.py` and `signs.py`."""

_NAMES = """
    3270 adf-accanthis adf-baskervald adf-berenis adf-gillius adf-ikarius adf-irianis adf-libris adf-mekanus
    adf-oldania adf-romande adf-solothurn adf-switzera adf-tribun adf-universalis adf-verana agave alee allerta
    anonymous-pro aoyagi-kouzan-t aoyagi-soseki apropal arapey arphic-ukai averia-sans-gwf averia-serif-gwf b612
    bajaderka bebas-neue beteckna blankenburg breip bwht cabin cabinsketch cantarell cardo cegui century-catalogue
    cherrybomb clear-sans cmu comfortaa comic-neue compagnon courier-prime croscore crosextra-caladea
    crosextra-carlito dancingscript dejavu dkg-handwriting dosis dotgothic16 dseg dustin ebgaramond ecolier-court
    elstob elusive-icons engadget entypo essays1743 eurofurence fantasque-sans fanwood femkeklaver firacode
    font-awesome freefont-ttf gamaliel gemunu-libre georgewilliams gfs-artemisia gfs-baskerville gfs-bodoni-classic
    gfs-didot gfs-gazis gfs-neohellenic gfs-olga gfs-porson gfs-solomos gfs-theokritos glyphicons-halflings
    gnutypewriter go gotico-antiqua goudybookletter hack hermit hosny-amiri humor-sans inconsolata inter
    ipaexfont-mincho isabella jetbrains-mono junction junicode jura karla karmilla kaushanscript kiloji
    klaudia-berenika klee konatu kouzan-mouhitsu kristi lato le-murmure league-mono league-spartan leckerli-one
    lemonada levien-museum liberation lindenhill linex linuxlibertine lobster lobstertwo manrope
    materialdesignicons-webfont millimetre mmcedar mona monofur monoid mononoki motoya-l-cedar motoya-l-maruberi
    mplus nanum nanum-extra national-park naver-d2coding noto-color-emoji noto-core noto-mono ocr-a ocr-b okolaks
    oldstandard open-sans opendin opendyslexic opensymbol osifont oxygen paratype pc-extra play prociono
    quattrocento quicksand radisnoir rampart reggae rit-sundar roadgeek roboto-slab roboto-unhinted rocknroll
    routed-gothic rufscript sambhota-yigchung sawarabi-gothic seto sil-andika sil-charis sil-gentiumplus
    sil-tagmukay sjfonts smc-chilanka smc-dyuthi smc-karumbi smc-manjari smc-uroob smiley-sans solide-mirage sora
    spleen staypuft stick stix summersby symbola tiresias tlwg-kinnari-ttf tlwg-purisa-ttf tlwg-sawasdee-ttf
    tlwg-typewriter-ttf tlwg-umpush-ttf tomsontalks tuffy ubuntu-title unfonts-extra urw-base35 vollkorn woowa-bm
    wqy-zenhei yanone-kaffeesatz yozvox-yozfont-edu yrsa-rasa yusei-magic
"""

DEBIAN_PACKAGES = tuple(f"fonts-{name}" for name in _NAMES.split())
